// Conversions between schemas/sessions.proto and the requests and states of the service.
#ifndef ROCATTACH_USERSPACE_CONTROL_SERVICE_WIRE_H_
#define ROCATTACH_USERSPACE_CONTROL_SERVICE_WIRE_H_

#include "absl/status/statusor.h"
#include "schemas/sessions.pb.h"
#include "userspace/counters/catalog.h"
#include "userspace/service/session_request.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// The request, whose counter files are added to the counters that the service knows. An
// error if a file cannot be read; the session service refuses what else is invalid.
absl::StatusOr<SessionRequest> RequestFromProto(const v1::SessionRequest& request,
                                                const CounterCatalog& known);

v1::SessionStatus StatusToProto(const SessionInfo& info);

// What can be measured in an attached process, and why not.
v1::AttachedProcess AttachedToProto(ProcessId target,
                                    const TargetDescription& description);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SERVICE_WIRE_H_
