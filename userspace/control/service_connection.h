// A program's connection to the service: opened when it is needed, and reopened when it
// broke.
#ifndef ROCATTACH_USERSPACE_CONTROL_SERVICE_CONNECTION_H_
#define ROCATTACH_USERSPACE_CONTROL_SERVICE_CONNECTION_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "schemas/session_api.grpc.pb.h"

namespace rocattach {

// Thread-safe. Errors carry a SessionStatus.
class ServiceConnection {
 public:
  using Stub = v1::SessionApi::Stub;

  explicit ServiceConnection(std::string socket) : socket_(std::move(socket)) {}

  // Calls the service; if the connection is lost, once more over a new one, since the
  // service may have been restarted.
  absl::Status Ask(const std::function<grpc::Status(Stub*)>& call);

 private:
  // The connection, and whether it is new.
  absl::StatusOr<std::shared_ptr<Stub>> Get(bool* is_new) ABSL_LOCKS_EXCLUDED(mutex_);
  void Drop(const std::shared_ptr<Stub>& stub) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::string socket_;
  absl::Mutex mutex_;
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
};

// A time limit for calls that the service answers at once, or after a process has
// answered.
void SetDeadline(grpc::ClientContext* context);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SERVICE_CONNECTION_H_
