// One call of the service that lasts as long as the run that it starts.
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
#include "absl/synchronization/mutex.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/library/service_connection.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/target_names.h"

namespace rocattach {

// A thread makes the call, reads its events and hands records to a consumer; user
// callbacks run on it. The service ends the run when the call ends for any reason.
class RemoteStream {
 public:
  using Reader = grpc::ClientReader<v1::RunEvent>;
  using Begin = std::function<std::unique_ptr<Reader>(ServiceConnection::Stub*,
                                                      grpc::ClientContext*)>;
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

  // Returns when the service has started the run, or refused it.
  absl::Status Start(const Begin& begin);
  // Ends the run. When this returns, all records have been delivered, except inside a
  // user's callback, which the reader may be waiting for.
  absl::Status Stop();
  // Waits until `total` records of the run have been delivered. An error if they do not
  // arrive, or the run has ended.
  absl::Status WaitFor(uint64_t total);
  // ERROR if the run has ended by itself.
  absl::Status Check();

  uint64_t run() const { return started_.run(); }
  // The session's number in the service; 0: not started.
  uint64_t session() const { return started_.session(); }

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
    std::optional<v1::RunStarted> started ABSL_GUARDED_BY(mutex);
    uint64_t total ABSL_GUARDED_BY(mutex) = 0;
    bool stopping ABSL_GUARDED_BY(mutex) = false;  // its end is expected
    bool ended ABSL_GUARDED_BY(mutex) = false;
    grpc::Status end ABSL_GUARDED_BY(mutex);
  };
  static void Read(const std::shared_ptr<Shared>& shared);
  static void ConsumeEvent(Shared* shared, const v1::RunEvent& event);
  // The error for a run that has ended, but was neither stopped nor cancelled.
  static absl::Status Loss(const Shared& shared)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex);

  grpc::Status StartOnce(ServiceConnection::Stub* stub, const Begin& begin);
  // Conditions that a call waits for, besides the end of the run.
  struct Awaited {
    bool started = false;
    uint64_t total = UINT64_MAX;  // number of records
  };
  static bool IsThere(const Shared& shared, const Awaited& what)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(shared.mutex) {
    return shared.ended || shared.total >= what.total ||
           (what.started && shared.started.has_value());
  }
  // True once one is met or the run has ended; false if the service does not answer.
  bool Await(ServiceConnection::Stub* stub, const Awaited& what);
  // Ends the call and the thread.
  void Cancel();

  const std::shared_ptr<ServiceConnection> connection_;
  const std::shared_ptr<RecordConsumer> consumer_;
  const std::shared_ptr<SessionTargetNames> names_;
  const Lost lost_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  v1::RunStarted started_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_REMOTE_RUN_H_
