#include "userspace/record/load_governor.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"

namespace rocattach {
namespace {

constexpr uint64_t kIntervalNs = 1'000'000'000;
// The chosen level is expected to use the first share of the budget. Twice as much is
// recorded when less than the second share is used: the budget still holds then.
constexpr double kAim = 0.7;
constexpr double kCalm = 0.4;
// Largest reduction at once: the load of the interval may have been a peak.
constexpr double kMostFactor = 16;
// Smallest and largest number of calm intervals before more is recorded. It is doubled
// each time that more proves too much.
constexpr uint32_t kCalmIntervals = 5;
constexpr uint32_t kMostCalmIntervals = 160;

double Since(uint64_t now, uint64_t before) {
  return now > before ? static_cast<double>(now - before) : 0;
}

}  // namespace

double LoadGovernor::Load(const LoadReading& reading) {
  const double ns = Since(reading.now_ns, last_->now_ns);
  double load = 0;
  std::vector<std::string> parts;
  if (budget_.cpu_percent > 0) {
    const double percent = 100 * Since(reading.cpu_ns, last_->cpu_ns) / ns;
    load = percent / budget_.cpu_percent;
    parts.push_back(
        absl::StrFormat("processor %.1f%% of %.4g%%", percent, budget_.cpu_percent));
  }
  if (budget_.disk_bytes_per_second > 0) {
    const double bytes = Since(reading.disk_bytes, last_->disk_bytes) * 1e9 / ns;
    const auto most = static_cast<double>(budget_.disk_bytes_per_second);
    load = std::max(load, bytes / most);
    parts.push_back(absl::StrFormat("output %.0f of %.0f bytes/s", bytes, most));
  }
  reason_ = absl::StrJoin(parts, ", ");
  return load;
}

bool LoadGovernor::Update(const LoadReading& reading) {
  if (!budget_.limited()) return false;
  if (!last_.has_value()) {
    last_ = reading;
    return false;
  }
  if (reading.now_ns < last_->now_ns + kIntervalNs) return false;
  const std::string reason = reason_;
  const double load = Load(reading);
  last_ = reading;
  const SamplingLevel before = level_;
  if (since_recovery_ != UINT32_MAX) ++since_recovery_;
  if (load > 1) {
    if (reading.attached) Shed(load);
  } else if (load < kCalm && !level_.every()) {
    Recover();
  } else {
    calm_ = 0;
  }
  if (level_ != before) return true;
  reason_ = reason;
  return false;
}

void LoadGovernor::Shed(double load) {
  calm_ = 0;
  if (level_.counts_only()) return;
  // More was recorded too early.
  const bool too_early = since_recovery_ <= std::max(calm_needed_, kCalmIntervals);
  calm_needed_ = too_early ? std::min(2 * calm_needed_, kMostCalmIntervals)
                           : std::max(calm_needed_ / 2, kCalmIntervals);
  since_recovery_ = UINT32_MAX;
  const double factor = std::min(load / kAim, kMostFactor);
  // Powers of two: levels with names that users recognise.
  level_ = SamplingLevel::OneIn(uint64_t{level_.divisor()}
                                << static_cast<int>(std::ceil(std::log2(factor))));
}

void LoadGovernor::Recover() {
  if (++calm_ < calm_needed_) return;
  calm_ = 0;
  since_recovery_ = 0;
  level_ = SamplingLevel::OneIn(level_.counts_only() ? SamplingLevel::kMostDivisor
                                                     : level_.divisor() / 2);
}

}  // namespace rocattach
