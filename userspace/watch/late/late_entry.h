// The ways into a process whose runtime may be open, other than a window at a probe.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_LATE_ENTRY_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_LATE_ENTRY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "injector/attach.h"
#include "injector/call_entry.h"
#include "userspace/base/process.h"
#include "userspace/watch/late/awaited_call.h"
#include "userspace/watch/windows/window_attacher.h"
#include "userspace/watch/windows/window_policy.h"

namespace rocattach {

// Where the runtime is in a process.
struct LateTarget {
  ProcessId process;
  uint64_t runtime_address = 0;  // in the process, inside its copy of the runtime
  uint64_t cookie = 0;           // that copy's
};

// Windows are passed to the sink. Thread-safe: for each process one call at a time.
class LateEntry {
 public:
  // Both must outlive it.
  LateEntry(WindowAttacher* attacher, const WindowPolicy* policy)
      : attacher_(attacher), policy_(policy) {}

  // Reads what an attach to this process will need, so that the thread that is entered
  // does not wait for it.
  void Prepare(const LateTarget& target);
  // Called when the attach is over.
  void Forget(const ProcessId& process) { attacher_->preparations().Forget(process); }
  // For a process that could not be entered in another way before, and `why` (may be
  // empty). `loaded`: the collector is loaded there, but not used.
  void RecordFailedAttempt(const ProcessId& process, bool loaded, std::string why) {
    attacher_->preparations().RecordFailedAttempt(process, {loaded, std::move(why)});
  }

  // At a call of the runtime, without a hold: tries it until `deadline_ns`
  // (CLOCK_BOOTTIME), on threads of its own. True if the process has been entered; then
  // the window has been passed to the sink. False: nothing has changed, and nothing is
  // reported, because another way to enter may be tried.
  bool AtCall(const LateTarget& target, AwaitedCall* call, uint64_t deadline_ns);
  // For a process that calls no function of the runtime: enters one of its threads that
  // is blocked in a system call. Blocks until that has been done. `returns_unentered`:
  // if no thread can be entered now and nothing has changed, nothing is reported, and
  // the reason is returned with ABORTED. NOT_FOUND, and no report, if the process has
  // ended; OK in all other cases.
  absl::Status Blocked(const LateTarget& target, bool returns_unentered);
  // For a process with a collector of an earlier service, whose memory is at `memory`:
  // passes a window and the collector's report to the sink. `entered`: it was entered
  // through rocprofiler-sdk, with this outcome; null: it was not.
  void TakeOver(const LateTarget& target, uint64_t memory, uint64_t bytes,
                const AttachOutcome* entered = nullptr);
  // Loads the collector on the thread `tid`, which is blocked in a system call, for
  // rocprofiler-sdk to attach it. Passes nothing to the sink.
  AttachOutcome LoadForSdk(const LateTarget& target, pid_t tid);
  // For a process that is deliberately not entered: passes a window with the reason to
  // the sink.
  void PassBy(const ProcessId& process, uint64_t cookie, AttachReason reason,
              std::string detail);

  // True if sessions need what only rocprofiler-sdk provides.
  bool needs_sdk() const { return attacher_->needs_sdk(); }
  // True if the reports of this library are accepted: the collector's, or one added
  // here, which belongs to an earlier service and was inherited by a forked child.
  bool HasCollector(const FileIdentity& library) const {
    return attacher_->requests().HasCollector(library);
  }
  void AddInheritedLibrary(const FileIdentity& library) {
    attacher_->requests().AddInheritedLibrary(library);
  }
  size_t inherited_libraries() const {
    return attacher_->requests().inherited_libraries();
  }

 private:
  // One try, on a thread that has ended when this returns.
  AttachOutcome TryAtCall(const AttachRequest& request, const SeenCall& seen,
                          AwaitedCall* call);
  // Finishes a window that no event of the kernel has announced.
  void FinishUnannounced(Window window);

  WindowAttacher* const attacher_;
  const WindowPolicy* const policy_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_LATE_ENTRY_H_
