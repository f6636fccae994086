// A program's connection to the service: opened when it is needed, and reopened after
// it broke.
#ifndef ROCATTACH_USERSPACE_LIBRARY_SERVICE_CONNECTION_H_
#define ROCATTACH_USERSPACE_LIBRARY_SERVICE_CONNECTION_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "schemas/session_api.grpc.pb.h"

namespace rocattach {

// Thread-safe. Errors carry a SessionStatus. A call waits for as long as the service
// needs, but not for a service that is stopped (SIGSTOP), frozen or hanging: while a
// call waits, the service is asked every second to answer, and if it does not do so
// within some seconds, the call is cancelled.
class ServiceConnection {
 public:
  using Stub = v1::SessionApi::Stub;
  template <typename Response>
  using Begin =
      std::function<std::unique_ptr<grpc::ClientAsyncResponseReader<Response>>(
          Stub*, grpc::ClientContext*, grpc::CompletionQueue*)>;

  explicit ServiceConnection(std::string socket) : socket_(std::move(socket)) {}

  // Makes the call that `begin` starts. If the connection is lost, makes it once more
  // over a new one, since the service may have been restarted.
  template <typename Response>
  absl::Status Call(const Begin<Response>& begin, Response* response) {
    return Ask([&](Stub* stub) {
      grpc::ClientContext context;
      SetDeadline(&context);
      grpc::CompletionQueue queue;
      grpc::Status status;
      auto call = begin(stub, &context, &queue);
      call->Finish(response, &status, &queue);
      const bool answered = Await(stub, &queue, &context);
      return answered || status.ok() ? status : NoAnswer();
    });
  }
  // The same for calls of any kind. `call` may return NoAnswer().
  absl::Status Ask(const std::function<grpc::Status(Stub*)>& call);

  // True if a call ended because its connection was lost.
  static bool Broke(const grpc::Status& status);
  // False if the service does not answer in time. True over a broken connection: a call
  // over it fails by itself.
  bool Answers(Stub* stub);
  // The same over the current connection.
  bool Answers();
  // Time that a call may wait before the next Answers().
  absl::Duration Patience() const;

  // The status of a call that timed out.
  grpc::Status NoAnswer() const;
  const std::string& socket() const { return socket_; }

 private:
  static void SetDeadline(grpc::ClientContext* context);
  // Waits for the queue's only event. False if the call was cancelled because the
  // service did not answer.
  bool Await(Stub* stub, grpc::CompletionQueue* queue, grpc::ClientContext* context);
  // The connection, opened if necessary; sets `is_new`.
  absl::StatusOr<std::shared_ptr<Stub>> Get(bool* is_new) ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::shared_ptr<Stub>> Connect();
  void Drop(const std::shared_ptr<Stub>& stub) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets whether the service has answered the last call.
  void SetAnswered(bool answered);
  bool silent() const;

  const std::string socket_;
  // Until then, a service that did not answer gets less time, so that calls that follow
  // each other do not each wait long.
  std::atomic<uint64_t> silent_until_ns_ = 0;
  absl::Mutex mutex_;
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_SERVICE_CONNECTION_H_
