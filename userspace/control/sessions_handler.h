// The calls of schemas/sessions.proto.
#ifndef ROCATTACH_USERSPACE_CONTROL_SESSIONS_HANDLER_H_
#define ROCATTACH_USERSPACE_CONTROL_SESSIONS_HANDLER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "schemas/sessions.grpc.pb.h"
#include "userspace/control/run_queue.h"
#include "userspace/service/process_history.h"
#include "userspace/service/session_service.h"

namespace rocattach {

class SessionsHandler : public v1::Sessions::Service {
 public:
  // Maximum number of simultaneous runs; each has a thread while it runs.
  static constexpr size_t kMostRuns = 64;

  // As SessionsServer::Start().
  SessionsHandler(SessionService* sessions, std::string output,
                  const ProcessHistory* history)
      : sessions_(sessions), output_(std::move(output)), history_(history) {}

  // Ends all runs, and lets no new one begin.
  void Close();

  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest*,
                     v1::HelloResponse* response) override;
  grpc::Status CheckFilter(grpc::ServerContext*, const v1::Filter* filter,
                           v1::CheckFilterResponse*) override;
  grpc::Status FindProcess(grpc::ServerContext*, const v1::ProcessIdentity* request,
                           v1::ProcessIdentity* response) override;
  grpc::Status Start(grpc::ServerContext*, const v1::SessionRequest* request,
                     v1::StartResponse* response) override;
  grpc::Status Run(grpc::ServerContext* context, const v1::SessionRequest* request,
                   grpc::ServerWriter<v1::RunEvent>* writer) override;
  grpc::Status Stop(grpc::ServerContext*, const v1::SessionNumber* request,
                    v1::StopResponse*) override;
  grpc::Status Drain(grpc::ServerContext*, const v1::SessionNumber* request,
                     v1::DrainResponse* response) override;
  grpc::Status CheckDevice(grpc::ServerContext*, const v1::CheckDeviceRequest* request,
                           v1::CheckDeviceResponse* response) override;
  grpc::Status RunDevice(grpc::ServerContext* context,
                         const v1::RunDeviceRequest* request,
                         grpc::ServerWriter<v1::RunEvent>* writer) override;
  grpc::Status PollDevice(grpc::ServerContext*, const v1::SessionNumber* request,
                          v1::DeviceValues* response) override;
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::GetStatusResponse* response) override;
  grpc::Status GetHistory(grpc::ServerContext*, const v1::GetHistoryRequest* request,
                          v1::GetHistoryResponse* response) override;

 private:
  // A session that lasts as long as the call that started it.
  struct ActiveRun {
    RunQueue queue;
    std::atomic<uint64_t> session = 0;  // its number; 0: not started
    // Set while it is a device session that has not been stopped.
    absl::Mutex device_mutex;
    std::shared_ptr<DeviceRun> device ABSL_GUARDED_BY(device_mutex);
  };

  absl::StatusOr<std::shared_ptr<ActiveRun>> NewRun();
  void Remove(const std::shared_ptr<ActiveRun>& run);
  // Null if the session is not a run.
  std::shared_ptr<ActiveRun> Find(const v1::SessionNumber& number);
  absl::StatusOr<std::shared_ptr<ActiveRun>> StartRun(
      const v1::SessionRequest& request);
  absl::StatusOr<std::shared_ptr<ActiveRun>> StartDevice(
      const v1::RunDeviceRequest& request);
  absl::Status End(ActiveRun* run);
  // Sends what the run collects until it ends, and then removes it.
  grpc::Status Pump(grpc::ServerContext* context,
                    const absl::StatusOr<std::shared_ptr<ActiveRun>>& started,
                    grpc::ServerWriter<v1::RunEvent>* writer);

  SessionService* const sessions_;
  const std::string output_;
  const ProcessHistory* const history_;
  absl::Mutex mutex_;
  std::set<std::shared_ptr<ActiveRun>> runs_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SESSIONS_HANDLER_H_
