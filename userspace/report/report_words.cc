#include "userspace/report/report_words.h"

#include <signal.h>
#include <string.h>
#include <time.h>

#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "userspace/base/human.h"
#include "userspace/report/text.h"

namespace rocattach {

std::string Plural(uint64_t count, const char* one, const char* many) {
  return absl::StrCat(HumanCount(count), " ", count == 1 ? one : many);
}

std::string Percent(uint64_t part, uint64_t whole) {
  if (whole == 0) return "-";
  return absl::StrFormat(
      "%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

// A time in UTC, from the recording's clock snapshot.
std::string WallTime(const v1::ClockSnapshot& clock, uint64_t boottime_ns) {
  if (clock.realtime_ns() == 0) return "";
  uint64_t realtime = clock.realtime_ns() + (boottime_ns - clock.boottime_ns());
  time_t seconds = static_cast<time_t>(realtime / 1'000'000'000);
  tm parts;
  char text[64];
  if (gmtime_r(&seconds, &parts) == nullptr) return "";
  if (strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts) == 0) return "";
  return absl::StrCat(text, " UTC");
}

namespace {

std::string SignalName(uint32_t signal) {
  const char* name = sigabbrev_np(static_cast<int>(signal));
  return name == nullptr ? absl::StrCat("signal ", signal) : absl::StrCat("SIG", name);
}

}  // namespace

std::string EndText(const v1::ProcessEnd& end) {
  switch (end.how()) {
    case v1::ProcessEnd::EXITED:
      return absl::StrCat("exited with status ", end.exit_code());
    case v1::ProcessEnd::SIGNALLED:
      return absl::StrCat("killed by ", SignalName(end.signal()),
                          end.core_dumped() ? " (core dumped)" : "");
    case v1::ProcessEnd::EXECED:
      return "replaced its program by exec";
    case v1::ProcessEnd::STILL_RUNNING:
      return "still running when the recording ended";
    case v1::ProcessEnd::CONTINUED:
      return "runs on; the recording continues in the next file";
    case v1::ProcessEnd::LOST:
      return "gone; how it ended is not known";
    default:
      return "ended; how is not known";
  }
}

std::string WindowModeText(v1::WindowMode mode) {
  switch (mode) {
    case v1::WINDOW_MODE_REPORTED:
      return "windows were only reported";
    case v1::WINDOW_MODE_DENIED:
      return "denied in the kernel";
    case v1::WINDOW_MODE_PAUSED:
      return "attaching was paused";
    case v1::WINDOW_MODE_UNRELATED:
      return "the command did not start it";
    case v1::WINDOW_MODE_SHARED:
      return "it shares its memory with another process";
    case v1::WINDOW_MODE_UNSERVED:
      return "the service was stopped";
    case v1::WINDOW_MODE_BLOCKED:
      return "entered through a thread that was blocked in a system call";
    case v1::WINDOW_MODE_LISTENER:
      return "entered through the thread that it has for attachers";
    case v1::WINDOW_MODE_TAKEN_OVER:
      return "the collector was in the process already";
    default:
      return ShortName(mode);
  }
}

std::string HoldEndText(v1::HoldEnd end) {
  switch (end) {
    case v1::HOLD_END_NONE:
    case v1::HOLD_END_STOPPED:
      return "";
    case v1::HOLD_END_DEADLINE:
      return "until its deadline";
    case v1::HOLD_END_KILLED:
      return "until it was killed";
    case v1::HOLD_END_RELEASED:
      return "until it was released";
    case v1::HOLD_END_UNYIELDING:
      return "ended because the thread could not yield its CPU";
    case v1::HOLD_END_UNSERVED:
      return "until the service was stopped";
    default:
      return ShortName(end);
  }
}

std::string MemoryText(v1::MemoryOperation operation) {
  switch (operation) {
    case v1::MEMORY_OPERATION_ALLOCATE:
      return "allocated";
    case v1::MEMORY_OPERATION_VMEM_ALLOCATE:
      return "virtual memory handle allocated";
    case v1::MEMORY_OPERATION_FREE:
      return "freed";
    case v1::MEMORY_OPERATION_VMEM_FREE:
      return "virtual memory handle freed";
    case v1::MEMORY_OPERATION_SCRATCH_ALLOCATE:
      return "scratch allocated";
    case v1::MEMORY_OPERATION_SCRATCH_FREE:
      return "scratch freed";
    case v1::MEMORY_OPERATION_SCRATCH_RECLAIM:
      return "scratch reclaimed";
    default:
      return "unknown";
  }
}

std::string DirectionText(v1::CopyDirection direction) {
  switch (direction) {
    case v1::COPY_DIRECTION_HOST_TO_HOST:
      return "host to host";
    case v1::COPY_DIRECTION_HOST_TO_DEVICE:
      return "host to device";
    case v1::COPY_DIRECTION_DEVICE_TO_HOST:
      return "device to host";
    case v1::COPY_DIRECTION_DEVICE_TO_DEVICE:
      return "device to device";
    default:
      return "unknown";
  }
}

std::string CommandText(const v1::Process& process) {
  std::vector<std::string> command;
  for (const std::string& argument : process.arguments()) {
    const bool plain = !argument.empty() && !absl::StrContains(argument, ' ');
    command.push_back(plain ? TerminalSafe(argument)
                            : absl::StrCat("'", TerminalSafe(argument), "'"));
  }
  if (command.empty()) command.push_back(TerminalSafe(process.executable()));
  if (process.arguments_cut()) command.push_back("…");
  return absl::StrJoin(command, " ");
}

std::string KernelText(const KernelReport& kernel) {
  if (!kernel.name.empty()) return TerminalSafe(kernel.name);
  if (kernel.kernel_id == 0) return "(unknown kernel)";
  return absl::StrCat("(kernel ", kernel.kernel_id,
                      ", its name is not in the recording)");
}

}  // namespace rocattach
