#include "userspace/telemetry/self_usage.h"

#include <time.h>
#include <unistd.h>

#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

uint64_t ResidentBytes() {
  const auto text = ReadFile("/proc/self/statm", 4096);
  if (!text.ok()) return 0;
  const std::vector<absl::string_view> fields = absl::StrSplit(*text, ' ');
  uint64_t pages = 0;
  if (fields.size() < 2 || !absl::SimpleAtoi(fields[1], &pages)) return 0;
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// Changes when the machine's clock is set, as in other exporters.
double StartTimeSeconds() {
  const auto ticks = ReadStartTicks(getpid());
  if (!ticks.ok()) return 0;
  const ClockSnapshot clock = CaptureClockSnapshot();
  const uint64_t age_ns = clock.boottime_ns - *ticks * ClockTickNs();
  return static_cast<double>(clock.realtime_ns - age_ns) * 1e-9;
}

}  // namespace

SelfUsage ReadSelfUsage() {
  SelfUsage usage;
  usage.cpu_seconds = static_cast<double>(ClockNs(CLOCK_PROCESS_CPUTIME_ID)) * 1e-9;
  usage.resident_bytes = ResidentBytes();
  usage.start_time_seconds = StartTimeSeconds();
  return usage;
}

}  // namespace rocattach
