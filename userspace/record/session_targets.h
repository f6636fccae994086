// The recorder's targets, as the session engine uses them.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSION_TARGETS_H_
#define ROCATTACH_USERSPACE_RECORD_SESSION_TARGETS_H_

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

// Carries the session engine's requests out on the recorder's thread, which alone uses
// targets. Thread-safe.
class SessionTargets : public SessionBackend, public TargetObserver {
 public:
  // `arrived` is called on the recorder's thread and must not wait; `waiting` as in
  // TargetObserver.
  explicit SessionTargets(std::function<void(TargetId, bool waiting)> arrived)
      : arrived_(std::move(arrived)) {}

  // Before any process comes. The recorder outlives all calls but the observer's.
  void SetRecorder(Recorder* recorder) { recorder_ = recorder; }
  // Lets a process continue that waits in its OnLoad.
  void Release(TargetId target);
  // Writes to the process's stream that it cannot do what a session asks for.
  void NoteRefusal(TargetId target, uint64_t session, const std::string& why);

  std::vector<TargetId> Targets() override;
  absl::StatusOr<TargetDescription> Describe(TargetId target) override;
  absl::StatusOr<TargetId> FindTarget(pid_t pid) override;
  absl::Status Start(TargetId target, std::shared_ptr<const CompiledPlan> plan,
                     std::shared_ptr<RecordSink> sink) override;
  absl::Status Stop(TargetId target) override;
  absl::Status Settle(TargetId target) override;
  absl::Status Drain(TargetId target) override;

  void OnTargetReady(TargetId target, TargetDescription description,
                     bool waiting) override;
  void OnTargetGone(TargetId target) override;

 private:
  // Runs `work` on the recorder's thread and waits until it calls its argument.
  absl::Status Ask(std::function<void(TargetSession::Done)> work);

  const std::function<void(TargetId, bool)> arrived_;
  Recorder* recorder_ = nullptr;
  absl::Mutex mutex_;
  std::map<TargetId, TargetDescription> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSION_TARGETS_H_
