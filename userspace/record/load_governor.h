// Chooses how much is recorded, so that the service stays within its budget.
#ifndef ROCATTACH_USERSPACE_RECORD_LOAD_GOVERNOR_H_
#define ROCATTACH_USERSPACE_RECORD_LOAD_GOVERNOR_H_

#include <cstdint>
#include <optional>
#include <string>

#include "userspace/record/sampling_level.h"

namespace rocattach {

// What the service may use, on average over about a second. 0: not limited.
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
  // A process is attached: less can be recorded.
  bool attached = true;
};

// Sheds load at once, and takes it back slowly: what was recorded after every
// hesitation of a busy program would come and go with it. Not thread-safe; reads no
// clock.
class LoadGovernor {
 public:
  explicit LoadGovernor(const LoadBudget& budget) : budget_(budget) {}

  // To be called some times a second. True if the level has changed; nothing is judged
  // before a second has passed.
  bool Update(const LoadReading& reading);

  const SamplingLevel& level() const { return level_; }
  // For users: why the level is what it is, "processor 12.1% of 5%, disk 1.2 MB/s of
  // 10 MB/s".
  const std::string& reason() const { return reason_; }
  bool limited() const { return budget_.limited(); }

 private:
  // The larger share of a budget that was used: 1 is all of it.
  double Load(const LoadReading& reading);
  void Shed(double load);
  void Recover();

  const LoadBudget budget_;
  SamplingLevel level_ = SamplingLevel::Every();
  std::string reason_;
  std::optional<LoadReading> last_;
  uint32_t calm_ = 0;         // intervals in a row with room for twice as much
  uint32_t calm_needed_ = 0;  // set by the first Shed()
  uint32_t since_recovery_ = UINT32_MAX;  // intervals
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_LOAD_GOVERNOR_H_
