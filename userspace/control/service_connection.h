// A client's connection to the service, opened when it is needed.
#ifndef ROCATTACH_USERSPACE_CONTROL_SERVICE_CONNECTION_H_
#define ROCATTACH_USERSPACE_CONTROL_SERVICE_CONNECTION_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "schemas/sessions.grpc.pb.h"

namespace rocattach {

// Thread-safe. Errors carry a SessionStatus; if no service answers, their code is
// UNAVAILABLE, and the message has a remedy. A call waits for as long as the service
// needs, but not for a service that is stopped (SIGSTOP), frozen or hanging: while a
// call waits, the service is asked every second to answer, and if it does not do so
// within some seconds, the call is cancelled.
class ServiceConnection {
 public:
  using Stub = v1::Sessions::Stub;
  // A function of Stub that begins a call: &Stub::AsyncHello.
  template <typename Request, typename Response>
  using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
      grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

  // `reopens`: after the connection broke, the next call opens another one, behind which
  // there may be another service. Otherwise all later calls fail.
  explicit ServiceConnection(std::string socket, bool reopens = false)
      : socket_(std::move(socket)), reopens_(reopens) {}

  // OK if there is a service whose protocol is ours.
  absl::Status Hello() { return Call(&Stub::AsyncHello, {}).status(); }

  // Makes a call. If the connection is lost and may be reopened, makes it once more over
  // a new one, since the service may have been restarted.
  template <typename Request, typename Response>
  absl::StatusOr<Response> Call(Method<Request, Response> method,
                                const std::type_identity_t<Request>& request) {
    Response response;
    const absl::Status status = Ask([&](const std::shared_ptr<Stub>& stub) {
      return CallOver(stub.get(), method, request, &response);
    });
    if (!status.ok()) return status;
    return response;
  }
  // Makes a call over this connection only: for a session that ends with it.
  template <typename Request, typename Response>
  grpc::Status CallOver(Stub* stub, Method<Request, Response> method,
                        const std::type_identity_t<Request>& request,
                        Response* response) {
    grpc::ClientContext context;
    SetDeadline(&context);
    grpc::CompletionQueue queue;
    grpc::Status status;
    auto call = (stub->*method)(&context, request, &queue);
    call->Finish(response, &status, &queue);
    const bool answered = Await(stub, &queue, &context);
    return answered || status.ok() ? status : NoAnswer();
  }
  // As Call() for calls of any kind. `call` may return NoAnswer().
  absl::Status Ask(
      const std::function<grpc::Status(const std::shared_ptr<Stub>&)>& call);

  // True if a call ended because its connection was lost.
  static bool Broke(const grpc::Status& status);
  // False if the service does not answer in time. True over a broken connection: a call
  // over it fails by itself.
  bool Answers(Stub* stub);
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
  const bool reopens_;
  // Until then, a service that did not answer gets less time, so that calls that follow
  // each other do not each wait long.
  std::atomic<uint64_t> silent_until_ns_ = 0;
  absl::Mutex mutex_;
  std::shared_ptr<Stub> stub_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SERVICE_CONNECTION_H_
