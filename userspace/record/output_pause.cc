#include "userspace/record/output_pause.h"

namespace rocattach {

void OutputPause::Update(const OutputSet& output) {
  if (paused_ != output.paused().ok()) return;
  paused_ = !paused_;
  statistics_->SetPaused(paused_);
  if (observer_ == nullptr) return;
  if (paused_) {
    dropped_before_ = output.records_dropped();
    observer_->OnRecordingPaused(output.paused());
  } else {
    observer_->OnRecordingResumed(output.records_dropped() - dropped_before_);
  }
}

}  // namespace rocattach
