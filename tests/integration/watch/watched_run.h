// A command that runs natively, and again under a service.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_WATCHED_RUN_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_WATCHED_RUN_H_

#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

// Expects exactly one process in a recording, with verdict `attached`; returns it.
RecordedProcess OnlyAttached(const std::string& recording);

// Runs the command once without a service, and once with a service with these options.
// Expects that it succeeds and ends the same way both times, and that it is recorded as
// above; returns that process. `watched`, unless null, receives the second end.
RecordedProcess RunWatched(const std::vector<std::string>& command,
                           const std::vector<std::string>& options = {"--auto"},
                           Finished* watched = nullptr);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_WATCHED_RUN_H_
