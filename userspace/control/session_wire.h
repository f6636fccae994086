// Conversions for schemas/session_api.proto and the filters in it.
#ifndef ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_
#define ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schemas/control.pb.h"
#include "schemas/session_api.pb.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Changes whenever a record of session_record.h does.
inline constexpr uint32_t kRecordFormat = 2;

// The error of a service that has closed its sessions because it is ending.
inline constexpr char kServiceEnding[] = "rocattach-watch is ending";

v1::TargetProcess ToProto(ProcessId target);
ProcessId FromProto(const v1::TargetProcess& process);

// The message, cut to a length that can be sent.
std::string WireMessage(absl::string_view message);

// The codes of absl and gRPC have the same numbers; the session status is included.
grpc::Status ToGrpc(const absl::Status& status);
// Errors that carry no session status become ERROR; connection errors get a message
// with a remedy.
absl::Status FromGrpc(const grpc::Status& status);

// Filters, as the control protocol carries them too.
v1::Filter FilterToProto(const FilterSpec& spec);

// Accepts any message: the session engine refuses what is invalid in it.
FilterSpec FilterFromProto(const v1::Filter& filter);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_
