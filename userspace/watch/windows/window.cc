#include "userspace/watch/windows/window.h"

#include <string.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"

namespace rocattach {

absl::string_view VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOpen:
      return "open";
    case Verdict::kAttached:
      return "attached";
    case Verdict::kPassed:
      return "passed";
    case Verdict::kRefused:
      return "refused";
    case Verdict::kMissed:
      return "missed";
  }
  return "unknown";
}

absl::string_view CommOf(const rocattach_event& event) {
  return absl::string_view(event.comm, strnlen(event.comm, sizeof(event.comm)));
}

ProcessInfo ProcessOf(const rocattach_event& event) {
  const ProcessId id = ProcessIdOf(event);
  auto read = ReadProcessInfo(id.pid);
  if (read.ok() && read->id == id) return *std::move(read);
  ProcessInfo info;
  info.id = id;
  info.uid = event.uid;
  info.comm = std::string(CommOf(event));
  return info;
}

void SetUnreadableVerdict(const absl::Status& status, Window* window) {
  if (!IsOwnShortage(ErrnoOf(status))) {
    window->verdict = Verdict::kMissed;
    window->reason = "the process had exited before it could be inspected";
    return;
  }
  window->verdict = Verdict::kRefused;
  window->attach_tried = true;
  window->outcome.reason = AttachReason::kServiceResources;
  window->outcome.error = ErrnoOf(status);
  window->outcome.retryable = true;
  window->outcome.detail = std::string(status.message());
  window->reason = absl::StrCat(window->outcome.detail, "; ",
                                AttachReasonHelp(window->outcome.reason));
}

void SetSharedMemoryVerdict(pid_t other, bool is_vfork_child, Window* window) {
  window->verdict = Verdict::kRefused;
  window->attach_tried = true;
  AttachOutcome& outcome = window->outcome;
  outcome.stage = AttachStage::kCheck;
  outcome.reason = AttachReason::kSharedMemory;
  outcome.detail =
      is_vfork_child
          ? absl::StrCat("the process runs in the memory of its parent, process ",
                         other, ", which waits for it (vfork)")
          : absl::StrCat("the process shares its memory with process ", other,
                         ", whose hsa_init came first");
  window->reason = absl::StrCat(outcome.detail, "; ", AttachReasonHelp(outcome.reason));
}

void SetAttachVerdict(Window* window) {
  const AttachOutcome& outcome = window->outcome;
  if (outcome.ok() || outcome.reason == AttachReason::kTargetExited) return;
  const bool late = outcome.reason == AttachReason::kStopTimeout ||
                    outcome.reason == AttachReason::kNotAtWindow;
  window->verdict = late ? Verdict::kMissed : Verdict::kRefused;
  // Such a process cannot use GPUs, with or without the service.
  if (outcome.reason == AttachReason::kInheritedRuntime) {
    window->verdict = Verdict::kPassed;
  }
  window->reason = absl::StrCat(outcome.detail, outcome.detail.empty() ? "" : "; ",
                                AttachReasonHelp(outcome.reason));
}

}  // namespace rocattach
