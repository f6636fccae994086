// Programs that attach through librocattach, and their recordings.
#ifndef ROCATTACH_TESTS_INTEGRATION_LIBRARY_ATTACH_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_LIBRARY_ATTACH_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/library/late_target.h"
#include "userspace/base/file.h"

namespace rocattach::testing_support {

// The processes of `rocattach attach` for this target, and its guard.
inline std::vector<pid_t> RecordersOf(pid_t target) {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const pid_t pid = atoi(entry.path().filename().c_str());
    if (pid <= 0) continue;
    // Not by a stream, which throws if the process ends while it is read.
    const std::string words = ReadFile(entry.path() / "cmdline", 1 << 20).value_or("");
    if (words.find("/rocattach") != std::string::npos &&
        words.find("--pid=" + std::to_string(target) + '\0') != std::string::npos) {
      found.push_back(pid);
    }
  }
  return found;
}

class AttachLibraryTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  Child::Options Environment(std::vector<std::string> more = {}) const {
    Child::Options options;
    options.environment = {"ROCPROF_OUTPUT_PATH=" + directory_.path() + "/out",
                           "ROCPROF_OUTPUT_FILE_NAME=run", "ROCATTACH_LOG_LEVEL=info"};
    for (std::string& variable : more)
      options.environment.push_back(std::move(variable));
    return options;
  }
  Finished Run(std::vector<std::string> steps,
               std::vector<std::string> more = {}) const {
    steps.insert(steps.begin(), ROCATTACH_TEST_ATTACH_PROGRAM);
    return Child(steps, Environment(std::move(more))).Wait();
  }
  std::string File(const std::string& suffix = "") const {
    return directory_.path() + "/out/run" + suffix + ".rwa";
  }
  // Runs the attach program, and returns the status that it prints for this process.
  int StatusOfAttach(pid_t pid, std::vector<std::string> more = {}) const {
    const Finished run = Run({"attach=" + std::to_string(pid)}, std::move(more));
    EXPECT_TRUE(run.exited_with(0)) << run.errors;
    const size_t colon = run.output.find(": ");
    return colon == std::string::npos ? -1 : atoi(run.output.c_str() + colon + 2);
  }
  static void ExpectEveryLaterDispatch(const std::string& recording, pid_t pid,
                                       size_t count) {
    const RecordedProcess process = ReadRecording(recording).Process(pid);
    EXPECT_EQ(DispatchesOf(process, "After"), count);
    EXPECT_EQ(process.dropped(), 0u);
  }
  // Starts a program that attaches to `target`, and waits until it has attached.
  std::unique_ptr<Child> Attached(const LateTarget& target,
                                  std::vector<std::string> rest) const {
    std::vector<std::string> words = {ROCATTACH_TEST_ATTACH_PROGRAM,
                                      "attach=" + target.text()};
    words.insert(words.end(), rest.begin(), rest.end());
    auto program = std::make_unique<Child>(words, Environment());
    EXPECT_TRUE(Eventually([&] {
      return program->PollOutput().find(": 0 ROCATTACH") != std::string::npos;
    }));
    return program;
  }

  TemporaryDirectory directory_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_LIBRARY_ATTACH_FIXTURE_H_
