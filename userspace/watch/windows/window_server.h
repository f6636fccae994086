// The threads that serve windows: they take events from the kernel and attach.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_SERVER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "injector/attach.h"
#include "injector/elf/library_facts.h"
#include "userspace/watch/discovery/known_libraries.h"
#include "userspace/watch/late/awaited_call.h"
#include "userspace/watch/late/awaited_reports.h"
#include "userspace/watch/windows/attach_request_builder.h"
#include "userspace/watch/windows/backend_choice.h"
#include "userspace/watch/windows/follower_keeper.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/prepared_targets.h"
#include "userspace/watch/windows/preseizer.h"
#include "userspace/watch/windows/serving_threads.h"
#include "userspace/watch/windows/stub_remover.h"
#include "userspace/watch/windows/window.h"
#include "userspace/watch/windows/window_policy.h"

namespace rocattach {

struct WindowServerOptions {
  WindowPolicyOptions policy;
  CollectorOptions collector;
  // Must outlive the server; null: copies of the runtime have no paths.
  const KnownLibraries* libraries = nullptr;
  uint32_t hold_timeout_msec = 250;
  int threads = 64;
  // Must outlive the server; null: nothing is removed.
  StubRemover* stub_remover = nullptr;
  // Called once for every window, also for those of late attaches and of collectors
  // that are taken over. If the window opens at a probe: before it is served, but after
  // its thread has been asked to stop. May be null.
  std::function<void(const rocattach_event&)> on_window;
  // Called for every window of a late attach that opens at a probe, before it is
  // served, and again when its thread runs on: `served` is true then. May be null.
  std::function<void(const rocattach_event&, bool served)> on_late_window;
  // Watches for windows. False: only running processes are entered.
  bool watch_new = true;
  // True if a process may be seized in advance, where that is needed; null: any may.
  std::function<bool(pid_t)> wanted;
  // True if sessions need what only rocprofiler-sdk provides. May be null.
  std::function<bool()> needs_sdk;
  SdkSearch sdk_search;
  // Stops attaching where processes crash right after it.
  bool crash_breaker = true;
};

class WindowServer {
 public:
  // `probe` and `sink` must outlive the server.
  WindowServer(KernelProbe* probe, WindowSink* sink, WindowServerOptions options);
  ~WindowServer();

  absl::Status Start();
  // See ServingThreads.
  bool Stop(absl::Duration patience);
  absl::Duration UnattendedFor() const { return threads_.UnattendedFor(); }
  // Number of threads that have been serving one event for longer than a hold may take.
  size_t KeptThreads() const;
  // True if the rules allow attaching to a process that has opened no window.
  bool Allows(pid_t pid) const { return policy_.Allows(pid); }
  // The same without waiting for the process: true if it is not certain.
  bool MayAllow(pid_t pid) const { return policy_.MayAllow(pid); }
  // Reads what a late attach to this process will need, so that the thread that is
  // entered does not wait for it.
  void Prepare(const ProcessId& process, uint64_t runtime_address, uint64_t cookie);
  // Called when the late attach of this process is over.
  void ForgetPrepared(pid_t pid) ABSL_LOCKS_EXCLUDED(failed_attempts_mutex_) {
    prepared_.Take(pid);
    absl::MutexLock lock(&failed_attempts_mutex_);
    failed_attempts_.erase(pid);
  }
  // Late attach at a call of the runtime, without a hold: tries it until `deadline_ns`
  // (CLOCK_BOOTTIME), on threads of its own. True if the process has been entered; then
  // the window has been passed to the sink. False: nothing has changed, and nothing is
  // reported, because another way to enter may be tried.
  bool AttachAtCall(const ProcessId& process, uint64_t runtime_address, uint64_t cookie,
                    AwaitedCall* call, uint64_t deadline_ns);
  // Late attach of a process that calls no function of the runtime: enters one of its
  // threads that is blocked in a system call. Blocks until that has been done, and
  // passes the window to the sink. `runtime_address` is an address inside the process's
  // copy of the runtime, `cookie` that copy's. `returns_unentered`: if no thread can be
  // entered now and nothing has changed, nothing is reported, and the reason is
  // returned with ABORTED; OK in all other cases.
  absl::Status AttachBlocked(const ProcessId& process, uint64_t runtime_address,
                             uint64_t cookie, bool returns_unentered);
  // For a process with a collector of an earlier service, whose memory is at `memory`:
  // passes a window and the collector's report to the sink. `entered`: it was entered
  // through rocprofiler-sdk, with this outcome; null: it was not.
  void TakeOver(const ProcessId& process, uint64_t memory, uint64_t bytes,
                uint64_t cookie, const AttachOutcome* entered = nullptr);
  // True if sessions need what only rocprofiler-sdk provides.
  bool needs_sdk() const {
    return options_.needs_sdk != nullptr && options_.needs_sdk();
  }
  // Loads the collector on a thread that is blocked in a system call, for
  // rocprofiler-sdk to attach it. Passes nothing to the sink. `tid` is the ID of that
  // thread.
  AttachOutcome LoadForSdk(const ProcessId& process, uint64_t runtime_address,
                           uint64_t cookie, pid_t tid);
  // For the late attach of a process that could not be entered in another way before,
  // and `why` (may be empty). `loaded`: the collector is loaded there, but not used.
  void RecordFailedAttempt(pid_t pid, bool loaded, std::string why)
      ABSL_LOCKS_EXCLUDED(failed_attempts_mutex_);
  // True if the reports of this library are accepted: the collector's, or one added
  // here, which belongs to an earlier service and was inherited by a forked child.
  bool HasCollector(const FileIdentity& library) const {
    return requests_.HasCollector(library);
  }
  void AddInheritedLibrary(const FileIdentity& library) {
    requests_.AddInheritedLibrary(library);
  }
  size_t inherited_libraries() const { return requests_.inherited_libraries(); }
  // For a running process that is deliberately not entered: passes a window with the
  // reason to the sink.
  void PassBy(const ProcessId& process, uint64_t cookie, AttachReason reason,
              std::string detail);
  // True if the threads run with real-time priority.
  bool realtime() const { return threads_.realtime(); }

 private:
  WindowPolicyOptions PolicyOptions();
  ServingThreads::Options ThreadOptions();
  // Called when a window has waited for a turn until its hold was over.
  void Expire(const rocattach_event& event);
  // The leader waits here for the next event; false when stopping.
  bool WaitForEvent(rocattach_event* event, int stop_fd);
  // False if this thread must end at once (AttachOutcome::tracer_must_exit).
  bool Serve(const rocattach_event& event, const Lead& lead);
  bool ServeWindow(const rocattach_event& event, const Lead& lead);
  // The first steps of an attach, before anything is prepared for the others.
  void Begin(const rocattach_event& event, AttachStart* start) const;
  // One try, on a thread that has ended when this returns.
  AttachOutcome TryAtCall(const AttachRequest& request, const SeenCall& seen,
                          AwaitedCall* call);
  // Passes to the kernel the rules that it can apply without the service.
  absl::Status PublishRules();
  // Tries the attach, which may have begun; false if the preseizer has taken over the
  // window.
  bool Attach(Window* window, const Lead& lead, AttachStart* start);
  static rocattach_event LateEvent(const ProcessId& process, uint64_t cookie);
  // The path of the library copy at whose probe the window opened.
  std::string LibraryOf(const rocattach_event& event) const;
  // Adapts the request to what sessions need.
  void ChooseBackendFor(Window* window, AttachRequest* request) const;
  // Finishes a window that no event of the kernel has announced: one of a late attach,
  // or of a collector that is taken over.
  void FinishUnannounced(Window window);
  void Settle(Window* window);
  void Finish(Window window);

  KernelProbe* const probe_;
  WindowSink* const sink_;
  const WindowServerOptions options_;
  CrashBreaker crash_breaker_;
  const WindowPolicy policy_;
  LibraryCache cache_;
  AttachRequestBuilder requests_;
  AwaitedReports awaited_;
  FollowerKeepers followers_;
  std::unique_ptr<Preseizer> preseizer_;  // in hold mode signal only
  struct FailedAttempt {
    bool loaded = false;
    std::string why;
  };
  FailedAttempt FailedAttemptOf(const rocattach_event& event)
      ABSL_LOCKS_EXCLUDED(failed_attempts_mutex_);

  absl::Mutex failed_attempts_mutex_;
  std::map<pid_t, FailedAttempt> failed_attempts_
      ABSL_GUARDED_BY(failed_attempts_mutex_);
  PreparedTargets prepared_;
  // These use everything above.
  ServingThreads threads_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_SERVER_H_
