// For tests that look at some of what users are told: all but that is ignored.
#ifndef ROCATTACH_TESTS_SILENT_OBSERVER_H_
#define ROCATTACH_TESTS_SILENT_OBSERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "userspace/service/watcher_observer.h"

namespace rocattach::testing_support {

class SilentObserver : public WatcherObserver {
 public:
  void OnVerdict(const v1::Process&, const v1::WindowEvent&) override {}
  void OnEnd(const v1::Process&, const v1::ProcessEnd&,
             const v1::LossAccount&) override {}
  void OnNotBelievable(const v1::Process&, const std::string&) override {}
  void OnRecordingPaused(const absl::Status&) override {}
  void OnRecordingResumed(uint64_t) override {}
  void OnSampling(const SamplingLevel&, const std::string&) override {}
  void OnSessionRefused(pid_t, const std::string&) override {}
  void OnPeriodsSkipped(pid_t, uint64_t, const std::string&) override {}
  void OnLibraryChanged(const std::string&, const std::string&) override {}
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_SILENT_OBSERVER_H_
