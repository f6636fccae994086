// Conversions for schemas/sessions.proto that clients and the service need.
#ifndef ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_
#define ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_

#include <grpcpp/support/status.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schemas/sessions.pb.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// HelloResponse.protocol: changes whenever a record of session_record.h does, and with
// every other change that the other side would misunderstand.
inline constexpr uint32_t kSessionProtocol = 3;

v1::ProcessIdentity ToProto(ProcessId target);
ProcessId FromProto(const v1::ProcessIdentity& process);

// The message, cut to a length that can be sent.
std::string WireMessage(absl::string_view message);

// The codes of absl and gRPC have the same numbers; the session status is included.
grpc::Status ToGrpc(const absl::Status& status);
// Errors that carry no session status are ERROR, and keep their code. Those of the
// connection get a message with a remedy, and UNAVAILABLE if the service has closed it.
absl::Status FromGrpc(const grpc::Status& status);

// A request without periods, duration and counter files.
v1::SessionRequest RequestToProto(const std::vector<FilterSpec>& filters,
                                  const std::vector<ProcessId>& targets);

v1::Filter FilterToProto(const FilterSpec& spec);

// Accepts any message: the session engine refuses what is invalid in it.
FilterSpec FilterFromProto(const v1::Filter& filter);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SESSION_WIRE_H_
