// Base for a test's observer of some of a recorder's reports: ignores all of them.
#ifndef ROCATTACH_TESTS_SILENT_RECORDER_OBSERVER_H_
#define ROCATTACH_TESTS_SILENT_RECORDER_OBSERVER_H_

#include <cstdint>
#include <string>

#include "userspace/record/recorder_observer.h"

namespace rocattach::testing_support {

// `Base` is RecorderObserver or an interface that extends it.
template <typename Base>
class SilentRecorderObserver : public Base {
 public:
  void OnVerdict(const v1::Process&, const v1::WindowEvent&) override {}
  void OnEnd(const v1::Process&, const v1::ProcessEnd&,
             const v1::LossAccount&) override {}
  void OnNotBelievable(const v1::Process&, const std::string&) override {}
  void OnUnseenWork(const v1::Process&, const std::string&) override {}
  void OnRecordingPaused(const absl::Status&) override {}
  void OnRecordingResumed(uint64_t) override {}
  void OnSampling(const SamplingLevel&, const std::string&) override {}
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_SILENT_RECORDER_OBSERVER_H_
