#include "userspace/record/end_verdict.h"

#include <signal.h>
#include <string.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/human.h"

namespace rocattach {
namespace {

// The progress of the attach, as the end of a sentence.
absl::string_view Progress(const Window& window, CollectorProgress collector) {
  if (collector == CollectorProgress::kInPlace) {
    return "inside hsa_init, with the collector in place";
  }
  if (collector == CollectorProgress::kReported) {
    return "after the collector was loaded and before the runtime called it";
  }
  if (window.outcome.ok()) {
    return "after the collector's code was started in it and before the collector "
           "reported in";
  }
  if (window.outcome.target_modified) return "while the attach was writing to it";
  if (window.outcome.seized_ns != 0) {
    return "while it was being stopped, before anything was written to it";
  }
  return "in its window, before anything was done to it";
}

// Explains how the attach may have caused the signal, directly or indirectly.
absl::string_view Suspicion(uint32_t signal) {
  switch (signal) {
    case SIGSYS:
      return "a seccomp filter of the process, or its own dispatch of system calls "
             "(PR_SET_SYSCALL_USER_DISPATCH), forbids a call that loading the "
             "collector "
             "needs, so the attach is the likely cause";
    case SIGXFSZ:
    case SIGXCPU:
      return "a resource limit of the process was exceeded, perhaps by the attach";
    case SIGKILL:
      return "another process sent it, or a memory limit was reached, perhaps by the "
             "attach";
    case SIGTERM:
    case SIGINT:
    case SIGHUP:
    case SIGQUIT:
    case SIGPIPE:
    case SIGALRM:
    case SIGUSR1:
    case SIGUSR2:
      return "such a signal is usually sent by another process, but the attach may be "
             "the cause";
    default:
      return "the attach may be the cause";
  }
}

}  // namespace

std::string SignalName(uint32_t signal) {
  const char* name = sigabbrev_np(static_cast<int>(signal));
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

EndVerdict VerdictAtEnd(const Window& window, CollectorProgress collector,
                        const v1::ProcessEnd& end) {
  const bool reported = collector != CollectorProgress::kNone;
  const bool touched =
      window.outcome.target_modified || window.outcome.ok() || reported;
  const absl::string_view progress = Progress(window, collector);
  std::string after;
  if (end.time_ns() > window.event.time_ns) {
    after = absl::StrCat(HumanDuration(end.time_ns() - window.event.time_ns),
                         " after it entered hsa_init, ");
  }
  EndVerdict verdict;
  if (window.outcome.ok() || reported) verdict.reason = AttachReason::kCollectorSilent;
  switch (end.how()) {
    case v1::ProcessEnd::SIGNALLED:
      verdict.detail = absl::StrCat("the process was killed by ",
                                    SignalName(end.signal()), " ", after, progress);
      if (touched) {
        verdict.reason = AttachReason::kDiedDuringAttach;
        absl::StrAppend(&verdict.detail, ": ", Suspicion(end.signal()), ". ",
                        AttachReasonHelp(verdict.reason));
      }
      return verdict;
    case v1::ProcessEnd::EXITED:
      verdict.detail = absl::StrCat("the process exited with status ", end.exit_code(),
                                    " ", after, progress);
      if (touched && end.exit_code() != 0) {
        absl::StrAppend(
            &verdict.detail,
            "; if it does not without the service, the attach is the cause");
      }
      return verdict;
    case v1::ProcessEnd::EXECED:
      verdict.detail =
          absl::StrCat("the process replaced its program by exec ", after, progress);
      return verdict;
    case v1::ProcessEnd::STILL_RUNNING:
      if (!window.outcome.ok() && !reported) {
        return VerdictOfLostThread(window, /*has_ended=*/false);
      }
      // Neither the process nor the collector is the cause.
      verdict.verdict = Verdict::kPassed;
      verdict.reason = AttachReason::kNone;
      verdict.detail =
          collector == CollectorProgress::kInPlace
              ? "the recording ended while the process was in its hsa_init, with the "
                "collector in place; the process runs on"
          : reported ? "the recording ended before the runtime had called the "
                       "collector; the process runs on"
                     : "the recording ended before the collector had reported in; the "
                       "process runs on";
      return verdict;
    default:
      verdict.detail = absl::StrCat("the process is gone, ", progress,
                                    "; how it ended is not known");
      if (touched)
        absl::StrAppend(&verdict.detail, ", and the attach may be the cause");
      return verdict;
  }
}

EndVerdict VerdictOfLostThread(const Window& window, bool has_ended) {
  EndVerdict verdict;
  verdict.detail = absl::StrCat(
      window.outcome.detail,
      has_ended ? "; the process has ended, and was" : "; the process runs on and was",
      " not attached to");
  return verdict;
}

AttachFailure UnusableMemory(const absl::Status& status) {
  const int error = ErrnoOf(status);
  AttachFailure failure = {
      AttachReason::kMemoryAccess, error,
      absl::StrCat("the collector's memory cannot be used: ", status.message())};
  if (IsOwnShortage(error)) {
    failure.reason = AttachReason::kServiceResources;
    absl::StrAppend(&failure.detail, "; ", AttachReasonHelp(failure.reason));
  }
  return failure;
}

}  // namespace rocattach
