// One attach window, from the probe's hit to its verdict.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "bpf/watch_events.h"
#include "injector/outcome.h"
#include "userspace/base/process.h"

namespace rocattach {

// The outcome of a window. Every process that opens one gets exactly one of these.
enum class Verdict : uint8_t {
  kOpen = 0,      // not decided yet
  kAttached = 1,  // the collector reported and is armed
  kPassed = 2,    // deliberately not attached: policy, pause, dry run, watching only
  kRefused = 3,   // wanted, but not possible or not permitted; nothing is running
  kMissed = 4,    // wanted and possible, but the service was too late
};
absl::string_view VerdictName(Verdict verdict);

inline ProcessId ProcessIdOf(const rocattach_event& event) {
  return ProcessId::StartedAt(static_cast<pid_t>(event.pid), event.start_ns);
}

// The name of the thread that opened the window.
absl::string_view CommOf(const rocattach_event& event);

// Facts from /proc about the event's process. If it has ended, or another process has
// its ID by now, those in the event: name, user and start time.
ProcessInfo ProcessOf(const rocattach_event& event);

// True for a late attach: the runtime may have been opened before.
inline bool IsLate(const rocattach_event& event) {
  return (event.cookie & ROCATTACH_COOKIE_LATE) != 0;
}

// A window as the attach threads pass it to the recorder.
struct Window {
  rocattach_event event = {};
  ProcessInfo process;
  Verdict verdict = Verdict::kOpen;
  std::string reason;     // the policy's reason, or the remedy for a refusal
  AttachOutcome outcome;  // meaningful once an attach was tried
  bool attach_tried = false;
  // Why rocprofiler-sdk was not chosen although a session wants it.
  std::string sdk_missing;
  std::string hsa_library;  // path of the library copy that was hit
};

// These set verdict and reason of a window. For a process that could not be inspected:
// it has exited, or the service is short of resources, according to `status`.
void SetUnreadableVerdict(const absl::Status& status, Window* window);
// For a process that shares its memory with process `other`.
void SetSharedMemoryVerdict(pid_t other, bool is_vfork_child, Window* window);
// For an attach that has been tried. Stays open after a success until the collector
// reports, and for a process that has exited until the kernel reports how.
void SetAttachVerdict(Window* window);

// Receives windows and events from the attach threads; called from several threads.
class WindowSink {
 public:
  virtual ~WindowSink() = default;
  virtual void OnWindow(Window window) = 0;
  // A collector reports where its memory is, or why it has none. Its process may be
  // waiting for the answer in its hsa_init.
  virtual void OnReady(const rocattach_event& event) = 0;
  // EXIT, EXEC and HOLD_END events.
  virtual void OnEvent(const rocattach_event& event) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_WINDOW_H_
