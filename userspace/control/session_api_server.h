// The service's side of schemas/session_api.proto.
#ifndef ROCATTACH_USERSPACE_CONTROL_SESSION_API_SERVER_H_
#define ROCATTACH_USERSPACE_CONTROL_SESSION_API_SERVER_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "schemas/session_api.grpc.pb.h"
#include "userspace/base/clock.h"
#include "userspace/control/run_queue.h"
#include "userspace/service/session_service.h"

namespace rocattach {

class SessionApiServer : public v1::SessionApi::Service {
 public:
  // Maximum number of simultaneous runs; each has a thread while it runs.
  static constexpr size_t kMostRuns = 64;

  // `sessions` must outlive it.
  explicit SessionApiServer(SessionService* sessions) : sessions_(sessions) {}

  // Ends all runs, and lets no new one begin.
  void Close();

  grpc::Status Hello(grpc::ServerContext*, const v1::HelloRequest*,
                     v1::HelloResponse* response) override;
  grpc::Status CheckFilter(grpc::ServerContext*, const v1::Filter* filter,
                           v1::CheckFilterResponse*) override;
  grpc::Status FindProcess(grpc::ServerContext*, const v1::FindProcessRequest* request,
                           v1::TargetProcess* response) override;
  grpc::Status Run(grpc::ServerContext* context, const v1::RunRequest* request,
                   grpc::ServerWriter<v1::RunEvent>* writer) override;
  grpc::Status StopRun(grpc::ServerContext*, const v1::RunNumber* request,
                       v1::StopRunResponse*) override;
  grpc::Status DrainRun(grpc::ServerContext*, const v1::RunNumber* request,
                        v1::DrainRunResponse* response) override;
  grpc::Status CheckDevice(grpc::ServerContext*, const v1::CheckDeviceRequest* request,
                           v1::CheckDeviceResponse* response) override;
  grpc::Status RunDevice(grpc::ServerContext* context,
                         const v1::RunDeviceRequest* request,
                         grpc::ServerWriter<v1::RunEvent>* writer) override;
  grpc::Status PollDevice(grpc::ServerContext*, const v1::RunNumber* request,
                          v1::DeviceValues* response) override;

 private:
  struct ActiveRun {
    uint64_t number = 0;
    RunQueue queue;
    uint64_t session = 0;             // number in SessionService
    std::atomic<bool> asked = false;  // the client has requested its end
    // Set while it is a device session that has not been stopped.
    absl::Mutex device_mutex;
    std::shared_ptr<DeviceRun> device ABSL_GUARDED_BY(device_mutex);
    bool is_device = false;
  };

  absl::StatusOr<std::shared_ptr<ActiveRun>> NewRun();
  absl::StatusOr<std::shared_ptr<ActiveRun>> Find(const v1::RunNumber& number);
  absl::Status End(ActiveRun* run);
  // Sends what the run collects until it ends, and then removes it.
  grpc::Status Pump(grpc::ServerContext* context, ActiveRun* run,
                    grpc::ServerWriter<v1::RunEvent>* writer);

  SessionService* const sessions_;
  absl::Mutex mutex_;
  std::map<uint64_t, std::shared_ptr<ActiveRun>> runs_ ABSL_GUARDED_BY(mutex_);
  // Numbers of a previous service must not be reused: a client may not have noticed
  // that it ended.
  uint64_t last_run_ ABSL_GUARDED_BY(mutex_) = BootNs();
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_SESSION_API_SERVER_H_
