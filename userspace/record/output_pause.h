// Whether the output can be written, and who is told when that changes.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_PAUSE_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_PAUSE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "userspace/record/output_set.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/record/run_statistics.h"

namespace rocattach {

// For users: nothing can be written, for this reason, now or for good.
std::string PausedText(const absl::Status& why);

// Notifies when the output begins or ceases to fail, with what was lost meanwhile. Not
// thread-safe.
class OutputPause {
 public:
  // `observer` may be null; both must outlive this.
  OutputPause(RunStatistics* statistics, RecorderObserver* observer)
      : statistics_(statistics), observer_(observer) {}

  // To be called after each OutputSet::Flush().
  void Update(const OutputSet& output);
  // Nothing can be written at the moment.
  bool paused() const { return paused_; }

 private:
  RunStatistics* const statistics_;
  RecorderObserver* const observer_;
  bool paused_ = false;
  uint64_t dropped_before_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_PAUSE_H_
