// One call of the service that lasts as long as what it collects.
#ifndef ROCATTACH_USERSPACE_CONTROL_REMOTE_RUN_H_
#define ROCATTACH_USERSPACE_CONTROL_REMOTE_RUN_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/control/service_connection.h"
#include "userspace/session/record_router.h"

namespace rocattach {

// A thread reads the events of the call and hands records to a router; user callbacks
// run on it. The service ends the run when the call ends for any reason.
class RemoteStream {
 public:
  using Reader = grpc::ClientReader<v1::RunEvent>;
  using Begin = std::function<std::unique_ptr<Reader>(ServiceConnection::Stub*,
                                                      grpc::ClientContext*)>;

  // `router` may be null: there are no records then.
  RemoteStream(std::shared_ptr<ServiceConnection> connection,
               std::shared_ptr<RecordRouter> router);
  // Cancels the call.
  ~RemoteStream();
  RemoteStream(const RemoteStream&) = delete;
  RemoteStream& operator=(const RemoteStream&) = delete;

  // Returns when the service has started the run, or refused it.
  absl::Status Start(const Begin& begin);
  // Ends the run. When this returns, all records have been delivered, except inside a
  // user's callback, which the reader may be waiting for.
  absl::Status Stop();
  // Waits until `total` records of the run have been delivered, or it has ended.
  void WaitFor(uint64_t total);

  uint64_t run() const { return run_; }

 private:
  // State of the thread, which may outlive this object: a callback can destroy its
  // session.
  struct Shared {
    std::shared_ptr<ServiceConnection> connection;
    std::shared_ptr<RecordRouter> router;
    grpc::ClientContext context;
    std::unique_ptr<Reader> reader;
    absl::Mutex mutex;
    SteadyCondVar changed;
    uint64_t total ABSL_GUARDED_BY(mutex) = 0;
    bool ended ABSL_GUARDED_BY(mutex) = false;
    absl::Status end ABSL_GUARDED_BY(mutex);
  };
  static void Read(const std::shared_ptr<Shared>& shared);
  static void Take(Shared* shared, const v1::RunRecords& records);

  const std::shared_ptr<ServiceConnection> connection_;
  const std::shared_ptr<RecordRouter> router_;
  std::shared_ptr<Shared> shared_;
  std::thread thread_;
  uint64_t run_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_REMOTE_RUN_H_
