// Attaches to processes that were running before the service started.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_RUNNING_ATTACHER_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_RUNNING_ATTACHER_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "injector/failure.h"
#include "injector/process/mapped_collector.h"
#include "injector/process/maps.h"
#include "userspace/base/process.h"
#include "userspace/base/steady_cond_var.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/late/awaited_call.h"
#include "userspace/watch/late/late_entry.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/sdk_entry.h"
#include "userspace/watch/windows/window_server.h"

namespace rocattach {

// A running process is entered at a safe point, the entry of a function of the HSA
// runtime, in one of three ways:
// 1. A thread that calls a function again and again is stopped at such a call, with
//    everything prepared.
// 2. Where that is not possible, the probe holds the thread, as at the window.
// 3. A process that calls none for some time is entered through a thread that is
//    blocked in a system call.
class RunningAttacher {
 public:
  // `libraries` are those that the server knows. All three must outlive this object.
  RunningAttacher(KernelProbe* probe, WindowServer* server, KnownLibraries* libraries)
      : probe_(probe), server_(server), late_(&server->late()), libraries_(libraries) {}

  // If sessions need rocprofiler-sdk, processes that offer it are entered through it.
  // `entry` must outlive this object.
  void set_sdk_entry(SdkEntry* entry) { sdk_entry_ = entry; }

  // If true, Attach() returns processes without a thread that can be entered now, with
  // ABORTED; they have no window, and the caller tries again.
  void set_returns_unentered(bool returns) { returns_unentered_ = returns; }

  // Maximum time to wait for a process to call the runtime.
  void set_patience(absl::Duration patience) { patience_ = patience; }

  // Attaches to these processes, all at the same time, and returns when each has had
  // its window or failed; verdicts come through the window sink. Returns the processes
  // without a window, with the reason. One call at a time; other objects may attach to
  // other processes meanwhile.
  std::map<ProcessId, absl::Status> Attach(const std::vector<ProcessId>& wanted)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // For WindowServerOptions::on_late_window. Ignores events of other processes.
  void OnLateWindow(const rocattach_event& event, bool served)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The copy of the runtime that a process uses.
  struct Runtime {
    std::shared_ptr<const LibraryCopy> copy;
    uint64_t cookie = 0;
    uint64_t hsa_init = 0;  // address in the process
    // A collector that an earlier service has left, or that was inherited in a fork.
    std::optional<MappedCollector> collector;
    StepResult enterable = {};  // why no thread of it may be entered
  };
  static LateTarget TargetOf(const ProcessId& process, const Runtime& runtime) {
    return {process, runtime.hsa_init, runtime.cookie};
  }
  // True if a thread has to be entered: there is no collector that can be taken over,
  // or it was inherited by a forked child, in which it starts anew.
  static bool NeedsEntry(const Runtime& runtime) {
    return !runtime.collector.has_value() ||
           (runtime.collector->inherited && !runtime.collector->runtime_was_open);
  }

  using Processes = std::map<ProcessId, Runtime>;
  using Calls = std::map<ProcessId, std::unique_ptr<AwaitedCall>>;
  using Failures = std::map<ProcessId, absl::Status>;

  // Attaches at calls without a hold, where that is possible.
  void EnterAtCalls(const Processes& processes, const Calls& calls)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Returns the processes that can be attached to.
  Processes Find(const std::vector<ProcessId>& wanted, Failures* failed);
  absl::StatusOr<Runtime> FindEnterable(const ProcessId& process);
  // Removes processes that cannot be entered, with their verdict.
  void PassByUnenterable(Processes* processes);
  // Removes processes that it has entered, or that cannot be entered in another way
  // either. Tells the server why the others were not entered.
  void EnterThroughSdk(Processes* processes, Failures* failed);
  absl::Status EnterWhenFree(const ProcessId& process, const std::string& library);
  absl::Status EnterAgain(const ProcessId& process, const Runtime& runtime);
  // `loaded`: set if the collector is in the process now, whatever failed after that.
  absl::Status EnterAnew(const ProcessId& process, const Runtime& runtime,
                         bool* loaded);
  static std::optional<MappedCollector> AwaitCollector(const ProcessId& process);
  // Attaches at a call of the runtime; returns the processes that made none.
  std::set<ProcessId> HoldBusyOnes(const Processes& processes)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The copy that the process has started, if it has mapped several.
  absl::StatusOr<Runtime> FindRuntime(const ProcessId& process);
  std::vector<Runtime> RuntimesIn(const Maps& maps) const;
  void HearInherited(pid_t pid, const Maps& maps);
  static absl::Status KeepStarted(pid_t pid, std::vector<Runtime>* found);
  absl::Status AddProbes(const ProcessId& process, const Runtime& runtime,
                         absl::Span<const char* const> functions);
  // Returns the processes that have opened no window.
  std::set<ProcessId> WaitForWindows(absl::Duration patience)
      ABSL_LOCKS_EXCLUDED(mutex_);

  KernelProbe* const probe_;
  WindowServer* const server_;
  LateEntry* const late_;
  KnownLibraries* const libraries_;
  SdkEntry* sdk_entry_ = nullptr;
  bool returns_unentered_ = false;
  absl::Duration patience_ = absl::Milliseconds(500);
  absl::Mutex mutex_;
  SteadyCondVar opened_;
  // Processes with probes that have not opened their window.
  std::set<ProcessId> waiting_ ABSL_GUARDED_BY(mutex_);
  // Processes with probes, and those of them whose window is being served: one of their
  // threads is stopped.
  std::set<ProcessId> probed_ ABSL_GUARDED_BY(mutex_);
  std::multiset<ProcessId> serving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_RUNNING_ATTACHER_H_
