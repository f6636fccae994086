#include "tests/integration/watch/watched_run.h"

#include <gtest/gtest.h>

namespace rocattach::testing_support {

RecordedProcess OnlyAttached(const std::string& recording) {
  const Recording found = ReadRecording(recording);
  EXPECT_EQ(found.processes.size(), 1u);
  if (found.processes.size() != 1) return {};
  const RecordedProcess& process = found.processes[0];
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
  return process;
}

RecordedProcess RunWatched(const std::vector<std::string>& command,
                           const std::vector<std::string>& options, Finished* watched) {
  const Finished native = Child(command).Wait();
  EXPECT_TRUE(native.exited_with(0)) << native.output << native.errors;
  WatcherProcess watcher(options);
  EXPECT_TRUE(watcher.ready());
  const Finished result = Child(command).Wait();
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.errors, native.errors);
  if (watched != nullptr) *watched = result;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  return OnlyAttached(watcher.recording());
}

}  // namespace rocattach::testing_support
