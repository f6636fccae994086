// hip_late on the simulated GPU: a process that a test attaches to while it runs.
#ifndef ROCATTACH_TESTS_INTEGRATION_LIBRARY_LATE_TARGET_H_
#define ROCATTACH_TESTS_INTEGRATION_LIBRARY_LATE_TARGET_H_

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

// Launches the kernel Before until Continue(), then the kernel After kAfter times.
class LateTarget {
 public:
  static constexpr int kAfter = 500;

  explicit LateTarget(std::vector<std::string> more = {})
      : child_(Command(directory_.path(), std::move(more))) {
    ready_ = Eventually(
        [&] { return std::filesystem::exists(directory_.path() + "/ready"); });
  }

  pid_t pid() const { return child_.pid(); }
  std::string text() const { return std::to_string(pid()); }
  bool ready() const { return ready_; }
  bool Runs() const { return kill(pid(), 0) == 0; }
  void Continue() { std::ofstream(directory_.path() + "/go"); }
  // Continues, and expects that the target ends unharmed.
  void ExpectEnd() {
    Continue();
    const Finished end = child_.Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_NE(end.output.find("result=ok"), std::string::npos) << end.output;
  }

 private:
  static std::vector<std::string> Command(const std::string& directory,
                                          std::vector<std::string> more) {
    std::vector<std::string> command = {SimgpuRunPath(),
                                        TargetPath("hip_late"),
                                        "-m",
                                        std::to_string(kAfter),
                                        "--idle",
                                        "--until",
                                        directory + "/go",
                                        "--ready",
                                        directory + "/ready"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }

  TemporaryDirectory directory_;
  Child child_;
  bool ready_ = false;
};

// Returns the recordings in a directory, sorted by name.
inline std::vector<std::string> RecordingsIn(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code error;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(directory, error)) {
    if (entry.path().extension() == ".rwa") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Returns the number of dispatches of a kernel in a process.
inline size_t DispatchesOf(const RecordedProcess& process, const std::string& kernel) {
  size_t count = 0;
  for (const rocattach_dispatch& dispatch : process.dispatches) {
    const auto found = process.kernels.find(dispatch.kernel_id);
    if (found != process.kernels.end() &&
        found->second.name().find(kernel) != std::string::npos) {
      ++count;
    }
  }
  return count;
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_LIBRARY_LATE_TARGET_H_
