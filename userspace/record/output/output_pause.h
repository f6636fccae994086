// Notices when the output can no longer be written, and when it can be again.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_PAUSE_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_PAUSE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "userspace/record/output/output_set.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/record/run_statistics.h"

namespace rocattach {

// Text for users: why nothing can be written, at the moment or for good.
std::string PausedText(const absl::Status& why);

// Notifies the observer when writing begins to fail, and when it works again, with the
// number of records lost meanwhile. Not thread-safe.
class OutputPause {
 public:
  // Both must outlive this.
  OutputPause(RunStatistics* statistics, const RecorderObservers* observers)
      : statistics_(statistics), observers_(observers) {}

  // To be called after each OutputSet::Flush().
  void Update(const OutputSet& output);
  // True if nothing can be written at the moment.
  bool paused() const { return paused_; }

 private:
  RunStatistics* const statistics_;
  const RecorderObservers* const observers_;
  bool paused_ = false;
  uint64_t dropped_before_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_OUTPUT_PAUSE_H_
