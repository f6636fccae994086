// The hard limit on the number of exposed series.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_SERIES_BUDGET_H_
#define ROCATTACH_USERSPACE_TELEMETRY_SERIES_BUDGET_H_

#include <cstdint>

namespace rocattach {

// A series that is exposed remains so until its process is gone, so that no series
// comes and goes with the load. Not thread-safe.
class SeriesBudget {
 public:
  explicit SeriesBudget(uint64_t limit) : limit_(limit) {}

  uint64_t limit() const { return limit_; }
  uint64_t used() const { return used_; }
  // Number of series that found no room, each counted once.
  uint64_t refused() const { return refused_; }

 private:
  friend class Admission;
  const uint64_t limit_;
  uint64_t used_ = 0, refused_ = 0;
};

// The series of one thing: a process, a GPU of a process, a kernel.
class Admission {
 public:
  // True if its `series` series are exposed. Once they are, they remain so.
  bool Ask(uint64_t series, SeriesBudget* budget) {
    if (taken_ > 0) return true;
    if (series <= budget->limit_ - budget->used_) {
      budget->used_ += series;
      taken_ = series;
      return true;
    }
    if (!refused_) budget->refused_ += series;
    refused_ = true;
    return false;
  }
  void Release(SeriesBudget* budget) {
    budget->used_ -= taken_;
    taken_ = 0;
  }
  bool taken() const { return taken_ > 0; }

 private:
  uint64_t taken_ = 0;
  bool refused_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_SERIES_BUDGET_H_
