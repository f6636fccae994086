// Filters of the C API.
#ifndef ROCATTACH_USERSPACE_LIBRARY_C_FILTER_H_
#define ROCATTACH_USERSPACE_LIBRARY_C_FILTER_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "userspace/library/rocattach_sessions.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// FILTER_DATA_CORRUPTED for what cannot be read; SESSION_FILTER_DATA_MISMATCH for data
// and properties that the kind does not accept. The data of unsupported kinds is not
// read: CheckFilter refuses them.
absl::StatusOr<FilterSpec> ReadFilter(rocattach_filter_kind_t kind,
                                      const rocattach_filter_data_t& data,
                                      uint64_t data_count,
                                      const rocattach_filter_property_t& property);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_C_FILTER_H_
