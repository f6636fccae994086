// Notes in the history what the recorder reports, and passes it on.
#ifndef ROCATTACH_USERSPACE_SERVICE_HISTORY_OBSERVER_H_
#define ROCATTACH_USERSPACE_SERVICE_HISTORY_OBSERVER_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/service/process_history.h"

namespace rocattach {

class HistoryObserver : public RecorderObserver {
 public:
  // `next` may be null; both must outlive it.
  HistoryObserver(ProcessHistory* history, RecorderObserver* next)
      : history_(history), next_(next) {}

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override {
    history_->NoteVerdict(process, verdict);
    if (next_ != nullptr) next_->OnVerdict(process, verdict);
  }
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override {
    history_->NoteEnd(process, end);
    if (next_ != nullptr) next_->OnEnd(process, end, account);
  }
  void OnNotBelievable(const v1::Process& process, const std::string& why) override {
    if (next_ != nullptr) next_->OnNotBelievable(process, why);
  }
  void OnRecordingPaused(const absl::Status& why) override {
    if (next_ != nullptr) next_->OnRecordingPaused(why);
  }
  void OnRecordingResumed(uint64_t records_lost) override {
    if (next_ != nullptr) next_->OnRecordingResumed(records_lost);
  }
  void OnSampling(const SamplingLevel& level, const std::string& why) override {
    if (next_ != nullptr) next_->OnSampling(level, why);
  }

 private:
  ProcessHistory* const history_;
  RecorderObserver* const next_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_HISTORY_OBSERVER_H_
