// One call of the service that lasts as long as the session that it starts.
#ifndef ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUN_H_
#define ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/control/service_connection.h"
#include "userspace/control/session_wire.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/target_names.h"

namespace rocattach {

// A thread makes the call, reads its events and hands records to a consumer; user
// callbacks run on it. The service ends the session when the call ends for any reason.
// Other calls for the session go over the same connection: behind another one there may
// be another service, with another session of that number.
class RemoteStream {
 public:
  using Stub = ServiceConnection::Stub;
  using Reader = grpc::ClientReader<v1::RunEvent>;
  using Begin = std::function<std::unique_ptr<Reader>(Stub*, grpc::ClientContext*)>;
  using Lost = std::function<void(const absl::Status& why)>;

  // `consumer` and `names` may be null: there are no records then. `lost` is called on
  // the thread if the call ends by itself after Start; it may be empty.
  RemoteStream(std::shared_ptr<ServiceConnection> connection,
               std::shared_ptr<RecordConsumer> consumer,
               std::shared_ptr<SessionTargetNames> names, Lost lost);
  // Cancels the call.
  ~RemoteStream();
  RemoteStream(const RemoteStream&) = delete;
  RemoteStream& operator=(const RemoteStream&) = delete;

  // Returns when the service has started the session, or refused it.
  absl::Status Start(const Begin& begin);
  // Ends the session. When this returns, all records have been delivered, except inside a
  // user's callback, which the reader may be waiting for.
  absl::Status Stop();
  // Delivers what the processes have recorded so far. An error if it does not arrive, or
  // the session has ended.
  absl::Status Drain();
  // The values of a device session.
  absl::StatusOr<v1::DeviceValues> Poll();
  // ERROR if the session has ended by itself.
  absl::Status Check();
  // False if the service does not answer in time.
  bool Answers() { return connection_->Answers(stub_.get()); }

  // The session's number in the service; 0: not started.
  uint64_t session() const { return session_.session(); }

 private:
  // State of the thread, which may outlive this object: a callback can destroy its
  // session.
  struct Shared {
    std::shared_ptr<ServiceConnection> connection;
    std::shared_ptr<RecordConsumer> consumer;
    std::shared_ptr<SessionTargetNames> names;
    Lost lost;
    grpc::ClientContext context;
    std::unique_ptr<Reader> reader;  // used by the thread only
    absl::Mutex mutex;
    SteadyCondVar changed;
    std::optional<uint64_t> started ABSL_GUARDED_BY(mutex);
    uint64_t total ABSL_GUARDED_BY(mutex) = 0;
    bool stopping ABSL_GUARDED_BY(mutex) = false;  // its end is expected
    bool ended ABSL_GUARDED_BY(mutex) = false;
    grpc::Status end ABSL_GUARDED_BY(mutex);
  };
  static void Read(const std::shared_ptr<Shared>& shared);
  static void ConsumeEvent(Shared* shared, const v1::RunEvent& event);
  // The error for a session that has ended, but was neither stopped nor cancelled.
  static absl::Status Loss(const Shared& shared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);

  grpc::Status StartOnce(const std::shared_ptr<Stub>& stub, const Begin& begin);
  // Makes a call about the session.
  template <typename Response>
  absl::StatusOr<Response> Call(
      ServiceConnection::Method<v1::SessionNumber, Response> method) {
    Response response;
    const absl::Status status =
        FromGrpc(connection_->CallOver(stub_.get(), method, session_, &response));
    if (!status.ok()) return status;
    return response;
  }
  // Conditions that a call waits for, besides the end of the session.
  struct Awaited {
    bool started = false;
    uint64_t total = UINT64_MAX;  // number of records
  };
  static bool IsThere(const Shared& shared, const Awaited& what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
    return shared.ended || shared.total >= what.total ||
           (what.started && shared.started.has_value());
  }
  // True once one is met or the session has ended; false if the service does not answer.
  bool Await(const Awaited& what);
  // Waits until `total` records have been delivered.
  absl::Status WaitFor(uint64_t total);
  // Ends the call and the thread.
  void Cancel();

  const std::shared_ptr<ServiceConnection> connection_;
  const std::shared_ptr<RecordConsumer> consumer_;
  const std::shared_ptr<SessionTargetNames> names_;
  const Lost lost_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  std::shared_ptr<Stub> stub_;  // of the connection over which it was started
  v1::SessionNumber session_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUN_H_
