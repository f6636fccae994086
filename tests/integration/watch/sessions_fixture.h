// The fixture for tests of sessions: a service that sees a GPU in a made-up topology,
// and targets with the simulated parts of a newer ROCm.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_SESSIONS_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_SESSIONS_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

class SessionsTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    // A GPU's node, as a real driver would show it in /sys.
    const std::string node = directory_.path() + "/nodes/1";
    std::filesystem::create_directories(node);
    std::ofstream(node + "/properties") << "cpu_cores_count 0\nsimd_count 416\n";
  }

  // Processes wait long enough for their session, even on an emulated processor.
  std::vector<std::string> Watch(std::vector<std::string> more) {
    std::vector<std::string> words = {"--auto", "--kfd-topology", directory_.path(),
                                      "--session-wait-msec", "10000"};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  // `target` begins with a program of tests/targets, or a path.
  static std::vector<std::string> OnSimrocm(std::vector<std::string> options,
                                            std::vector<std::string> target) {
    if (target[0].find('/') == std::string::npos) target[0] = TargetPath(target[0]);
    std::vector<std::string> words = {SimrocmRunPath()};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), target.begin(), target.end());
    return words;
  }

  std::string Socket() const { return directory_.path() + "/control.sock"; }

  ExecutableDirectory directory_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_SESSIONS_FIXTURE_H_
