// Chooses how much is recorded, so that the service stays within its budget.
#ifndef ROCATTACH_USERSPACE_RECORD_LOAD_GOVERNOR_H_
#define ROCATTACH_USERSPACE_RECORD_LOAD_GOVERNOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/record/sampling_level.h"

namespace rocattach {

// Limits for the service, averaged over about a second. 0: no limit.
struct LoadBudget {
  double cpu_percent = 0;              // of one processor, by all threads together
  uint64_t disk_bytes_per_second = 0;  // written to recordings

  bool limited() const { return cpu_percent > 0 || disk_bytes_per_second > 0; }
};

// Totals of the service so far.
struct LoadReading {
  uint64_t now_ns = 0;  // CLOCK_BOOTTIME
  uint64_t cpu_ns = 0;  // processor time of all threads
  uint64_t disk_bytes = 0;
  // True if a process is attached: only then can less be recorded.
  bool attached = true;
};

// Reduces load at once, and lets it grow again slowly: otherwise the amount recorded
// would rise and fall with every pause of a busy program. Not thread-safe; reads no
// clock.
class LoadGovernor {
 public:
  explicit LoadGovernor(const LoadBudget& budget) : budget_(budget) {}

  // Call this several times a second; it evaluates the load once a second at most.
  // Returns true if the level has changed.
  bool Update(const LoadReading& reading);

  const SamplingLevel& level() const { return level_; }
  // The reason for the level, for users: "processor 12.1% of 5%, output 1200000 of
  // 10000000 bytes/s".
  const std::string& reason() const { return reason_; }
  bool limited() const { return budget_.limited(); }

 private:
  // The larger of the used shares of the two budgets: 1 is all of a budget.
  double Load(const LoadReading& reading);
  void Shed(double load);
  void Recover();

  const LoadBudget budget_;
  SamplingLevel level_ = SamplingLevel::Every();
  std::string reason_;
  std::optional<LoadReading> last_;
  uint32_t calm_ = 0;         // consecutive intervals with room for twice as much
  uint32_t calm_needed_ = 0;  // set by the first Shed()
  uint32_t since_recovery_ = UINT32_MAX;  // intervals
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_LOAD_GOVERNOR_H_
