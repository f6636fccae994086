#include "userspace/record/output/output_pause.h"

#include <errno.h>

#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {

std::string PausedText(const absl::Status& why) {
  const std::string reason = CleanText(std::string(why.message()));
  // A pipe whose reader has gone stays unusable.
  if (const int error = ErrnoOf(why); error == EPIPE || error == ECONNRESET) {
    return absl::StrCat("nothing is recorded any more: ", reason);
  }
  return absl::StrCat("recording is paused: ", reason,
                      "; it resumes when that is over");
}

void OutputPause::Update(const OutputSet& output) {
  if (paused_ != output.paused().ok()) return;
  paused_ = !paused_;
  statistics_->SetPaused(paused_);
  if (paused_) dropped_before_ = output.records_dropped();
  for (RecorderObserver* observer : *observers_) {
    if (paused_) {
      observer->OnRecordingPaused(output.paused());
    } else {
      observer->OnRecordingResumed(output.records_dropped() - dropped_before_);
    }
  }
}

}  // namespace rocattach
