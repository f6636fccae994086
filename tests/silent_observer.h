// Base for a test's observer of some user-visible events: ignores all of them.
#ifndef ROCATTACH_TESTS_SILENT_OBSERVER_H_
#define ROCATTACH_TESTS_SILENT_OBSERVER_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "tests/silent_recorder_observer.h"
#include "userspace/service/watcher_observer.h"

namespace rocattach::testing_support {

class SilentObserver : public SilentRecorderObserver<WatcherObserver> {
 public:
  void OnSessionRefused(pid_t, const std::string&) override {}
  void OnPeriodsSkipped(pid_t, uint64_t, const std::string&) override {}
  void OnLibraryChanged(const std::string&, const std::string&) override {}
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_SILENT_OBSERVER_H_
