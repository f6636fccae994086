// Talks to a running rocattach-watch.
#ifndef ROCATTACH_USERSPACE_CONTROL_CONTROL_CLIENT_H_
#define ROCATTACH_USERSPACE_CONTROL_CONTROL_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "schemas/control.pb.h"
#include "userspace/control/service_channel.h"

namespace rocattach {

class ControlClient {
 public:
  // UNAVAILABLE, with a remedy, if no service answers at `path`.
  static absl::StatusOr<std::unique_ptr<ControlClient>> Connect(
      const std::string& path);
  ~ControlClient();

  // Errors carry the service's messages.
  absl::StatusOr<v1::StartSessionResponse> StartSession(
      const v1::StartSessionRequest& request);
  absl::Status StopSession(uint64_t session);
  absl::StatusOr<v1::GetStatusResponse> GetStatus();
  absl::StatusOr<v1::GetHistoryResponse> GetHistory(uint32_t pid);

 private:
  struct Parts;
  explicit ControlClient(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_CONTROL_CLIENT_H_
