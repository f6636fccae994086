// The recorder's targets, as the session engine uses them.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_TARGETS_H_
#define ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_TARGETS_H_

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/record/recorder.h"
#include "userspace/session/session_backend.h"

namespace rocattach {

// Executes the session engine's requests on the recorder's thread, which alone uses
// targets. Thread-safe.
class SessionTargets : public SessionBackend, public TargetObserver {
 public:
  // `arrived` and `missed` are called on the recorder's thread and must not wait.
  // `waiting` is as in TargetObserver; `missed` gets what OnTargetMissed() reports.
  explicit SessionTargets(std::function<void(ProcessId, bool waiting)> arrived,
                          std::function<void(ProcessId)> missed)
      : arrived_(std::move(arrived)), missed_(std::move(missed)) {}

  // Call this before any process arrives. The recorder must outlive all calls except
  // the observer's.
  void SetRecorder(Recorder* recorder) { recorder_ = recorder; }
  // Lets a process that waits in its OnLoad continue.
  void Release(ProcessId target);
  // Writes to the process's stream that it cannot do what a session requests.
  void WriteRefusal(ProcessId target, uint64_t session, const std::string& why);

  std::vector<ProcessId> Targets() override;
  absl::StatusOr<TargetDescription> Describe(ProcessId target) override;
  absl::StatusOr<ProcessId> FindTarget(pid_t pid) override;
  absl::Status Start(ProcessId target, std::shared_ptr<const CompiledPlan> plan,
                     std::shared_ptr<RecordSink> sink) override;
  absl::Status Stop(ProcessId target) override;
  absl::Status Settle(ProcessId target) override;
  absl::Status Drain(ProcessId target) override;

  void OnTargetReady(ProcessId target, TargetDescription description,
                     bool waiting) override;
  void OnTargetGone(ProcessId target) override;
  void OnTargetMissed(ProcessId target) override { missed_(target); }

 private:
  // Runs `work` on the recorder's thread and waits until it calls its argument.
  absl::Status Ask(std::function<void(TargetSession::Done)> work);

  // On the recorder's thread.
  void DescribeAgain(ProcessId id);

  const std::function<void(ProcessId, bool)> arrived_;
  const std::function<void(ProcessId)> missed_;
  Recorder* recorder_ = nullptr;
  absl::Mutex mutex_;
  std::map<ProcessId, TargetDescription> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_TARGETS_H_
