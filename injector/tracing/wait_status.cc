#include "injector/tracing/wait_status.h"

#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

std::string SignalName(int signal) {
  const char* name = sigabbrev_np(signal);
  return name != nullptr ? absl::StrCat("SIG", name) : absl::StrCat("signal ", signal);
}

std::string EventName(int event) {
  switch (event) {
    case PTRACE_EVENT_STOP:
      return "PTRACE_EVENT_STOP";
    case PTRACE_EVENT_EXIT:
      return "PTRACE_EVENT_EXIT";
    case PTRACE_EVENT_EXEC:
      return "PTRACE_EVENT_EXEC";
    default:
      return absl::StrCat("ptrace event ", event);
  }
}

}  // namespace

WaitStatus WaitStatus::FromWaitid(int code, int status) {
  if (code == CLD_KILLED || code == CLD_DUMPED) return Signalled(status);
  if (code != CLD_TRAPPED && code != CLD_STOPPED) return Exited(status);
  // Bits 8 and up name a ptrace event; without them the stop is a signal on its way to
  // the thread.
  const int event = status >> 8;
  const int signal = status & 0x7f;
  // With PTRACE_O_TRACESYSGOOD.
  if (status == (SIGTRAP | 0x80)) return SystemCallStop();
  if (event == 0) return SignalStop(signal);
  if (event == PTRACE_EVENT_STOP && signal != SIGTRAP) return GroupStop(signal);
  return PtraceEvent(event);
}

std::string WaitStatus::ToString() const {
  switch (kind_) {
    case Kind::kExited:
      return absl::StrCat("exited with ", number_);
    case Kind::kSignalled:
      return absl::StrCat("killed by ", SignalName(number_));
    case Kind::kSignalStop:
      return absl::StrCat("stopped before ", SignalName(number_), " is delivered");
    case Kind::kSystemCallStop:
      return "stopped in a system call";
    case Kind::kGroupStop:
      return absl::StrCat("stopped with its process by ", SignalName(number_));
    case Kind::kPtraceEvent:
      return absl::StrCat("stopped by ", EventName(number_));
  }
  return "";
}

}  // namespace rocattach
