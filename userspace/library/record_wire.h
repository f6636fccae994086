// Records of a session as sent over the socket.
#ifndef ROCATTACH_USERSPACE_LIBRARY_RECORD_WIRE_H_
#define ROCATTACH_USERSPACE_LIBRARY_RECORD_WIRE_H_

#include "schemas/sessions.pb.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

// Passes the records on, and counts those that were lost in transit. Record
// sizes are checked although the service is trusted: a wrong one would corrupt this
// program's memory. An invalid record ends the message, and counts as lost too.
void ConsumeRecords(const v1::RunRecords& records, RecordConsumer* consumer);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_RECORD_WIRE_H_
