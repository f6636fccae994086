// Programs that have been running for a while, with no variable set and no service
// running. Their recordings are compared with the programs' own counts.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_RUNNING_FIXTURE_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_RUNNING_FIXTURE_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/containers.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

class AttachRunningTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  // Starts hip_late, and returns when its threads have launched for a while.
  std::unique_ptr<Child> Start(std::vector<std::string> arguments,
                               std::vector<std::string> environment = {}) {
    arguments.insert(arguments.begin(), "hip_late");
    return StartProgram(std::move(arguments), std::move(environment));
  }
  // The same for another program that can change what it launches.
  std::unique_ptr<Child> StartProgram(std::vector<std::string> command,
                                      std::vector<std::string> environment = {}) {
    std::filesystem::remove(Path("go"));
    auto target = Launch(std::move(command), "ready", std::move(environment));
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
  // The same without waiting: the program is ready when the file `ready` exists.
  std::unique_ptr<Child> Launch(std::vector<std::string> command,
                                const std::string& ready,
                                std::vector<std::string> environment = {}) {
    std::filesystem::remove(Path(ready));
    command.insert(command.end(), {"--until", Path("go"), "--ready", Path(ready)});
    command = OnSimgpu(command);
    if (in_container_) command = WithoutCollector(command);
    // On a busy machine a thread may be delayed between its packet and its doorbell for
    // longer than the simulated GPU waits for the doorbell: such packets have no times.
    environment.insert(environment.begin(), "SIMGPU_UNRUNG_NS=5000000000");
    return std::make_unique<Child>(
        command,
        Child::Options{.environment = std::move(environment), .dies_with_us = true});
  }
  void Change() { std::ofstream(Path("go")).put('\n'); }
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }

  // Runs the target, attaches, lets the target change, and waits for both to end.
  RecordedProcess AttachOnce(std::vector<std::string> arguments, Finished* target,
                             Finished* attacher) {
    arguments.insert(arguments.begin(), "hip_late");
    return AttachToProgram(std::move(arguments), target, attacher);
  }
  RecordedProcess AttachToProgram(std::vector<std::string> command, Finished* target,
                                  Finished* attacher,
                                  std::vector<std::string> environment = {}) {
    auto child = StartProgram(std::move(command), std::move(environment));
    Attacher attach(Path("t.rwa"), {child->pid()});
    EXPECT_TRUE(attach.Attached());
    Change();
    *target = child->Wait();
    *attacher = attach.child().Wait();
    const Recording recording = ReadRecording(Path("t.rwa"));
    EXPECT_EQ(recording.processes.size(), 1u);
    return recording.processes.empty() ? RecordedProcess() : recording.processes[0];
  }

  static uint64_t Named(const RecordedProcess& process, const std::string& part) {
    uint64_t count = 0;
    for (const rocattach_dispatch& d : process.dispatches) {
      const auto kernel = process.kernels.find(d.kernel_id);
      count += kernel != process.kernels.end() &&
               kernel->second.name().find(part) != std::string::npos;
    }
    return count;
  }

  // Expects that the target was entered late and succeeded, and that everything it
  // launched after the change is recorded.
  static void ExpectExact(const RecordedProcess& process, const Finished& target,
                          const Finished& attacher,
                          const std::string& before = "Before",
                          const std::string& after = "After") {
    EXPECT_EQ(process.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
    ExpectComplete(process, target, attacher, before, after);
  }
  // The same, however the target was entered.
  static void ExpectComplete(const RecordedProcess& process, const Finished& target,
                             const Finished& attacher,
                             const std::string& before = "Before",
                             const std::string& after = "After") {
    EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
    EXPECT_THAT(target.output, testing::HasSubstr("result=ok"));
    EXPECT_EQ(target.errors, "");
    EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(static_cast<int64_t>(Named(process, after)),
              Printed(target.output, "after"))
        << target.output;
    EXPECT_LE(static_cast<int64_t>(Named(process, before)),
              Printed(target.output, "before"));
    EXPECT_EQ(process.dropped(), 0u);
    EXPECT_EQ(process.account.untimed(), 0u);
    EXPECT_EQ(process.account.packets_unseen(), 0u);
  }

  ExecutableDirectory directory_;
  bool in_container_ = false;  // the target sees no file of the collector
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_RUNNING_FIXTURE_H_
