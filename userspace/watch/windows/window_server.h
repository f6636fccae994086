// The threads that serve windows: they take events from the kernel and attach.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_SERVER_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_SERVER_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "injector/attach.h"
#include "userspace/base/process.h"
#include "userspace/watch/late/late_entry.h"
#include "userspace/watch/windows/follower_keeper.h"
#include "userspace/watch/windows/kernel_probe.h"
#include "userspace/watch/windows/preseizer.h"
#include "userspace/watch/windows/serving_threads.h"
#include "userspace/watch/windows/window.h"
#include "userspace/watch/windows/window_attacher.h"
#include "userspace/watch/windows/window_policy.h"

namespace rocattach {

struct WindowServerOptions {
  WindowPolicyOptions policy;
  WindowAttacherOptions attacher;
  int threads = 64;
  // Called for every window of a late attach that opens at a probe, before it is
  // served, and again when its thread runs on: `served` is true then. May be null.
  std::function<void(const rocattach_event&, bool served)> on_late_window;
  // Watches for windows. False: only running processes are entered.
  bool watch_new = true;
  // True if a process may be seized in advance, where that is needed; null: any may.
  std::function<bool(pid_t)> wanted;
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
  // Enters running processes.
  LateEntry& late() { return late_; }
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
  // Passes to the kernel the rules that it can apply without the service.
  absl::Status PublishRules();
  // Tries the attach, which may have begun; false if the preseizer has taken over the
  // window.
  bool Attach(Window* window, const Lead& lead, AttachStart* start);

  KernelProbe* const probe_;
  WindowSink* const sink_;
  const WindowServerOptions options_;
  WindowAttacher attacher_;
  const WindowPolicy policy_;
  LateEntry late_;
  FollowerKeepers followers_;
  std::unique_ptr<Preseizer> preseizer_;  // in hold mode signal only
  // These use everything above.
  ServingThreads threads_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_SERVER_H_
