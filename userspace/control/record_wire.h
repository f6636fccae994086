// Records of a session as they come over the socket.
#ifndef ROCATTACH_USERSPACE_CONTROL_RECORD_WIRE_H_
#define ROCATTACH_USERSPACE_CONTROL_RECORD_WIRE_H_

#include "schemas/session_api.pb.h"
#include "userspace/session/record_router.h"

namespace rocattach {

// Hands the records on, one by one, and counts those that were lost on their way.
// Nothing is trusted about where a record ends, although the service makes them: a
// wrong step would be ours. What does not fit ends the message, and counts as one more
// that is lost.
void RouteRecords(const v1::RunRecords& records, RecordRouter* router);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_RECORD_WIRE_H_
