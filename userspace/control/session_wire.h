// Conversions for schemas/session_api.proto, except for filters.
#ifndef ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_
#define ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schemas/session_api.pb.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Changes whenever a record of session_record.h does.
inline constexpr uint32_t kRecordFormat = 2;

// Why a service that has closed its sessions does nothing more.
inline constexpr char kServiceEnding[] = "rocattach-watch is ending";

v1::TargetProcess ToProto(ProcessId target);
ProcessId FromProto(const v1::TargetProcess& process);

// A message as long as it can be sent.
std::string WireMessage(absl::string_view message);

// The codes of absl and gRPC have the same numbers; the session status is included.
grpc::Status ToGrpc(const absl::Status& status);
// Errors that carry no session status become ERROR, those of the connection with a
// remedy.
absl::Status FromGrpc(const grpc::Status& status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_
