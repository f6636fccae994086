// The metrics of a running service.
#ifndef ROCATTACH_USERSPACE_SERVICE_SERVICE_METRICS_H_
#define ROCATTACH_USERSPACE_SERVICE_SERVICE_METRICS_H_

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/attribution/workload.h"
#include "userspace/attribution/workload_resolver.h"
#include "userspace/base/process.h"
#include "userspace/push/metrics_pusher.h"
#include "userspace/push/otlp_settings.h"
#include "userspace/push/profile_pusher.h"
#include "userspace/push/profile_settings.h"
#include "userspace/push/push_loop.h"
#include "userspace/record/recorder.h"
#include "userspace/telemetry/listen_address.h"
#include "userspace/telemetry/metrics_endpoint.h"
#include "userspace/telemetry/node_meters.h"
#include "userspace/watch/late/expected_windows.h"

namespace rocattach {

// Totals are added up on the recorder's thread, which handles the records, and a scrape
// asks that thread for a copy: no lock is held while records are drained. Outlives the
// recorder that uses its meters.
class ServiceMetrics : public MetricsSource {
 public:
  explicit ServiceMetrics(const NodeMetersOptions& options) : meters_(options) {}
  ~ServiceMetrics() override { Close(); }

  TargetMeters* meters() { return &meters_; }

  // Serves at `address` from now on, until Close(); before the recorder finishes.
  absl::Status Listen(const ListenAddress& address,
                      const std::vector<std::string>& hosts, Recorder* recorder);
  // Sets the source of counts of missed windows; used until Close(). Before Listen().
  void SetMissedWindows(std::function<MissedWindows()> missed) {
    missed_ = std::move(missed);
  }
  // Sets the source of counts of workloads that were not found; as above.
  void SetWorkloadFailures(std::function<WorkloadFailures()> failures) {
    workload_failures_ = std::move(failures);
  }
  // Sets a function that adds other facts to each snapshot; as above.
  void SetAddition(std::function<void(NodeSnapshot*)> add) { add_ = std::move(add); }
  // Pushes from now on, until Close(), when it pushes once more.
  absl::Status Push(const OtlpSettings& settings, Recorder* recorder,
                    PushStateFunction on_state);
  // The same for profiles.
  absl::Status PushProfiles(const ProfilePushSettings& settings, Recorder* recorder,
                            PushStateFunction on_state);
  // New processes are seen from now on, as long as `check` returns OK. Until Close().
  void SetReady(std::function<absl::Status()> check) ABSL_LOCKS_EXCLUDED(ready_mutex_);
  void Close();
  // The address at which it listens; empty if it does not.
  std::string address() const;

  // Adds the number of a session that the service's own options define; any thread.
  void AddOwnSession(uint64_t number);
  // Sets the workload of a process; any thread.
  void SetWorkload(const ProcessId& process, WorkloadIdentity workload);

  absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) override;
  absl::Status CheckAlive() override;
  absl::Status CheckReady() override;

 private:
  // Runs `task` on the recorder's thread and waits for it, for a limited time.
  absl::Status RunOnRecorder(std::function<void()> task);

  NodeMeters meters_;  // used on the recorder's thread only
  std::function<MissedWindows()> missed_;
  std::function<WorkloadFailures()> workload_failures_;
  std::function<void(NodeSnapshot*)> add_;
  Recorder* recorder_ = nullptr;
  absl::Mutex ready_mutex_;
  // Null before SetReady() and after Close().
  std::function<absl::Status()> ready_ ABSL_GUARDED_BY(ready_mutex_);
  std::unique_ptr<MetricsEndpoint> endpoint_;
  PushCounts push_counts_;
  std::atomic<bool> pushes_ = false;
  std::unique_ptr<MetricsPusher> pusher_;
  PushCounts profile_counts_;
  std::atomic<bool> pushes_profiles_ = false;
  std::unique_ptr<ProfilePusher> profile_pusher_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_SERVICE_METRICS_H_
