// Passes the verdicts of targets to those that need them.
#ifndef ROCATTACH_USERSPACE_RECORD_VERDICT_NOTIFIER_H_
#define ROCATTACH_USERSPACE_RECORD_VERDICT_NOTIFIER_H_

#include <functional>

#include "userspace/base/process.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/record/run_statistics.h"
#include "userspace/record/target.h"
#include "userspace/record/target_meter.h"
#include "userspace/watch/windows/stub_remover.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

// Counts verdicts and passes them on. Not thread-safe.
class VerdictNotifier {
 public:
  // All but `statistics` and `observers` may be null. All must outlive the notifier.
  struct Receivers {
    RunStatistics* statistics = nullptr;
    TargetMeters* meters = nullptr;
    // Removes the stubs of refused attaches.
    StubRemover* stub_remover = nullptr;
    const RecorderObservers* observers = nullptr;
    // Called if the process was not entered, for a reason that may be temporary.
    std::function<void(ProcessId)> on_not_entered;
  };
  explicit VerdictNotifier(Receivers receivers) : to_(std::move(receivers)) {}

  // Call this when the target has a new verdict; does nothing if it has none.
  void Notify(const Target& target) const;

 private:
  void RemoveStub(const Window& window) const;

  const Receivers to_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_VERDICT_NOTIFIER_H_
