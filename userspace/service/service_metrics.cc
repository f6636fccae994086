#include "userspace/service/service_metrics.h"

#include <utility>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

// A round of the recorder takes milliseconds; on a crowded machine, seconds.
constexpr absl::Duration kPatience = absl::Seconds(2);

}  // namespace

absl::Status ServiceMetrics::Listen(const ListenAddress& address,
                                    const std::vector<std::string>& hosts,
                                    Recorder* recorder) {
  recorder_ = recorder;
  ASSIGN_OR_RETURN(endpoint_, MetricsEndpoint::Start(address, this,
                                                     HttpHosts::OfThisMachine(hosts)));
  return absl::OkStatus();
}

absl::Status ServiceMetrics::Push(const OtlpSettings& settings, Recorder* recorder,
                                  PushStateFunction on_state) {
  recorder_ = recorder;
  pushes_ = true;
  ASSIGN_OR_RETURN(pusher_, MetricsPusher::Start(settings, this, &push_counts_,
                                                 std::move(on_state)));
  return absl::OkStatus();
}

absl::Status ServiceMetrics::PushProfiles(const ProfilePushSettings& settings,
                                          Recorder* recorder,
                                          PushStateFunction on_state) {
  recorder_ = recorder;
  pushes_profiles_ = true;
  ASSIGN_OR_RETURN(
      profile_pusher_,
      ProfilePusher::Start(settings, this, &profile_counts_, std::move(on_state)));
  return absl::OkStatus();
}

void ServiceMetrics::Close() {
  SetReady(nullptr);
  profile_pusher_.reset();
  pusher_.reset();
  endpoint_.reset();
}

std::string ServiceMetrics::address() const {
  return endpoint_ == nullptr ? "" : endpoint_->address().text();
}

void ServiceMetrics::AddOwnSession(uint64_t number) {
  if (recorder_ == nullptr) return;
  recorder_->RunOnThread([this, number] { meters_.AddOwnSession(number); });
}

void ServiceMetrics::SetWorkload(const ProcessId& process, WorkloadIdentity workload) {
  if (recorder_ == nullptr) return;
  // The other fields are numbers and names that the resolver has checked.
  workload.executable = CleanText(workload.executable);
  recorder_->RunOnThread([this, process, workload = std::move(workload)] {
    meters_.SetWorkload(process, workload);
  });
}

absl::Status ServiceMetrics::RunOnRecorder(std::function<void()> task) {
  auto done = std::make_shared<absl::Notification>();
  const bool accepted = recorder_->RunOnThread([done, task = std::move(task)] {
    task();
    done->Notify();
  });
  if (!accepted) return absl::UnavailableError("rocattach-watch is ending");
  if (!done->WaitForNotificationWithTimeout(kPatience)) {
    return absl::DeadlineExceededError(
        "the recorder of rocattach-watch has not answered for two seconds: the machine "
        "is overloaded, or the service hangs");
  }
  return absl::OkStatus();
}

absl::StatusOr<NodeSnapshot> ServiceMetrics::CaptureSnapshot(MetricsConsumer consumer) {
  // Shared with the task, which may run when nothing waits for it any more.
  auto snapshot = std::make_shared<NodeSnapshot>();
  RETURN_IF_ERROR(RunOnRecorder([this, snapshot, consumer] {
    recorder_->UpdateMeters();
    *snapshot = meters_.CaptureSnapshot(consumer);
    snapshot->run = recorder_->Totals();
    snapshot->targets = recorder_->CountTargets();
  }));
  if (missed_ != nullptr) {
    const MissedWindows missed = missed_();
    for (MissReason reason : kMissReasons) {
      snapshot->missed_windows[std::string(MissReasonName(reason))] = missed[reason];
    }
  }
  if (workload_failures_ != nullptr) {
    const WorkloadFailures failures = workload_failures_();
    snapshot->unknown_workloads = {{"crowded", failures.crowded},
                                   {"ended", failures.ended},
                                   {"group_only", failures.group_only},
                                   {"unreadable", failures.unreadable},
                                   {"invalid", failures.invalid}};
  }
  if (pushes_) {
    snapshot->pushes = {push_counts_.accepted, push_counts_.failed,
                        push_counts_.rejected_points};
  }
  if (pushes_profiles_) {
    snapshot->profile_pushes = {profile_counts_.accepted, profile_counts_.failed, 0};
  }
  if (add_ != nullptr) add_(snapshot.get());
  return std::move(*snapshot);
}

absl::Status ServiceMetrics::CheckAlive() {
  return RunOnRecorder([] {});
}

void ServiceMetrics::SetReady(std::function<absl::Status()> check) {
  absl::MutexLock lock(&ready_mutex_);
  ready_ = std::move(check);
}

absl::Status ServiceMetrics::CheckReady() {
  {
    absl::MutexLock lock(&ready_mutex_);
    if (ready_ == nullptr) {
      return absl::UnavailableError("rocattach-watch does not see new processes yet");
    }
    RETURN_IF_ERROR(ready_());
  }
  return CheckAlive();
}

}  // namespace rocattach
