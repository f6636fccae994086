// The engine's records as the C API declares them. Both have the same layout (asserted
// in c_record.cc), so a delivery is handed to the user's callback without a copy.
#ifndef ROCATTACH_USERSPACE_LIBRARY_C_RECORD_H_
#define ROCATTACH_USERSPACE_LIBRARY_C_RECORD_H_

#include "userspace/library/rocattach_sessions.h"
#include "userspace/session/session_record.h"

namespace rocattach {

inline const rocattach_record_header_t* ToC(const RecordHeader* record) {
  return reinterpret_cast<const rocattach_record_header_t*>(record);
}

inline const RecordHeader* FromC(const rocattach_record_header_t* record) {
  return reinterpret_cast<const RecordHeader*>(record);
}

// `record` must be followed by its text, as everywhere.
rocattach_record_tracer_t ToC(const TraceRecord& record);

// Sets the names of trace records to the texts that follow them. The records must be in
// writable memory.
void SetNames(const RecordHeader* begin, const RecordHeader* end);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_C_RECORD_H_
