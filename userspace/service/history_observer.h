// Adds the recorder's reports to the history, and passes them on.
#ifndef ROCATTACH_USERSPACE_SERVICE_HISTORY_OBSERVER_H_
#define ROCATTACH_USERSPACE_SERVICE_HISTORY_OBSERVER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/service/process_history.h"

namespace rocattach {

class HistoryObserver : public RecorderObserver {
 public:
  // `next` may be null; both must outlive it. `on_verdict` is called after `next`.
  HistoryObserver(
      ProcessHistory* history, RecorderObserver* next,
      std::function<void(const v1::WindowEvent& verdict, pid_t pid)> on_verdict)
      : history_(history), next_(next), on_verdict_(std::move(on_verdict)) {}

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override {
    history_->OnVerdict(process, verdict);
    if (next_ != nullptr) next_->OnVerdict(process, verdict);
    on_verdict_(verdict, static_cast<pid_t>(process.pid()));
  }
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override {
    history_->OnEnd(process, end);
    if (next_ != nullptr) next_->OnEnd(process, end, account);
  }
  void OnNotBelievable(const v1::Process& process, const std::string& why) override {
    if (next_ != nullptr) next_->OnNotBelievable(process, why);
  }
  void OnUnseenWork(const v1::Process& process, const std::string& why) override {
    if (next_ != nullptr) next_->OnUnseenWork(process, why);
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
  const std::function<void(const v1::WindowEvent&, pid_t)> on_verdict_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_HISTORY_OBSERVER_H_
