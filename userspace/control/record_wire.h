// Records of a session as sent over the socket.
#ifndef ROCATTACH_USERSPACE_CONTROL_RECORD_WIRE_H_
#define ROCATTACH_USERSPACE_CONTROL_RECORD_WIRE_H_

#include "schemas/session_api.pb.h"
#include "userspace/session/record_router.h"

namespace rocattach {

// Passes the records on, one by one, and counts those that were lost in transit. Record
// sizes are checked although the service is trusted: a wrong one would corrupt this
// program's memory. An invalid record ends the message, and counts as lost too.
void RouteRecords(const v1::RunRecords& records, RecordRouter* router);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_RECORD_WIRE_H_
