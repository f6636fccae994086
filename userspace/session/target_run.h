// One start of a session on the processes of a SessionBackend.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_RUN_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_RUN_H_

#include <cstddef>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_end.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_sink.h"
#include "userspace/session/target_owners.h"

namespace rocattach {

class TargetRun : public SessionRun, public std::enable_shared_from_this<TargetRun> {
 public:
  static std::shared_ptr<TargetRun> New(std::shared_ptr<TargetOwners> owners,
                                        RunSpec spec);

  absl::Status Start() override ABSL_LOCKS_EXCLUDED(starts_mutex_);
  absl::Status Stop() override ABSL_LOCKS_EXCLUDED(starts_mutex_);
  void EndAt(uint64_t boot_ns) override { end_->BringForward(boot_ns); }
  absl::Status Drain() override;
  // A process became ready: starts there too. Only for runs of all processes; does
  // nothing after Stop, or if it has started there.
  void Arrived(ProcessId target) ABSL_LOCKS_EXCLUDED(starts_mutex_);

  // The processes that it collects from now.
  std::vector<ProcessId> Running() const;
  // Those in which it could not be started, with the reasons. Only some of those that
  // have ended.
  std::map<ProcessId, absl::Status> Refused() const;
  // Those that have refused since the last call.
  std::map<ProcessId, absl::Status> NewlyRefused();
  // Those that run without something that the filters would include.
  std::map<ProcessId, std::vector<LeftOut>> LeftOutOf() const;
  CollectedCounts collected() const { return sink_->collected(); }

 private:
  static constexpr size_t kEndedThatAreKept = 1000;

  TargetRun(std::shared_ptr<TargetOwners> owners, RunSpec spec);
  std::shared_ptr<const CounterCatalog> Catalog() const;
  absl::StatusOr<std::vector<ProcessId>> Reserve();
  absl::Status StartTarget(ProcessId target)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(starts_mutex_);
  absl::Status OwnCounters(ProcessId target, const CompiledPlan& plan);
  absl::Status Refuse(ProcessId target, absl::Status why);
  // A session for all processes may be refused by any number of them, one after the
  // other.
  void ForgetEndedRefusals() ABSL_EXCLUSIVE_LOCKS_REQUIRED(owners_->mutex);
  void Ended(ProcessId target);

  const std::shared_ptr<TargetOwners> owners_;
  const RunSpec spec_;
  const std::shared_ptr<SessionEnd> end_ = std::make_shared<SessionEnd>();
  std::shared_ptr<SessionSink> sink_;  // constant
  // Held while the run is started in a process, and while it is stopped.
  absl::Mutex starts_mutex_;
  bool stopped_ ABSL_GUARDED_BY(starts_mutex_) = false;
  std::set<ProcessId> running_ ABSL_GUARDED_BY(owners_->mutex);
  std::map<ProcessId, absl::Status> refused_ ABSL_GUARDED_BY(owners_->mutex);
  std::map<ProcessId, absl::Status> newly_refused_ ABSL_GUARDED_BY(owners_->mutex);
  // The number of refused processes at which those that have ended are forgotten.
  size_t most_refused_ ABSL_GUARDED_BY(owners_->mutex) = kEndedThatAreKept;
  std::map<ProcessId, std::vector<LeftOut>> left_out_ ABSL_GUARDED_BY(owners_->mutex);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_TARGET_RUN_H_
