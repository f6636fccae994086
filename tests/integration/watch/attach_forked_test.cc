// Children that are forked from an attached process have its collector in their memory.
// One whose parent had shut its runtime down is recorded like any other process; one
// that has inherited an open runtime cannot dispatch, and gets a verdict that says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/containers.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

// The way in which the parent was attached to.
enum class Way { kAtWindow, kLate, kByDescriptor };

class ForkedTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  void Create(const std::string& name) { std::ofstream(Path(name)).put('\n'); }
  bool Exists(const std::string& name) {
    return Eventually([&] { return std::filesystem::exists(Path(name)); });
  }
  std::vector<std::string> Command(std::vector<std::string> more) {
    more.insert(more.begin(), {"fork_again", "--ready", Path("ready"), "--until",
                               Path("go"), "-n", "50"});
    return OnSimgpu(more);
  }
  static std::vector<pid_t> Children(const std::string& output,
                                     absl::string_view key = "child=") {
    std::vector<pid_t> children;
    for (absl::string_view line : absl::StrSplit(output, '\n')) {
      if (absl::ConsumePrefix(&line, key)) {
        children.push_back(atoi(std::string(line).c_str()));
      }
    }
    return children;
  }
  static void ExpectRight(const Finished& target) {
    EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
    EXPECT_THAT(target.output, HasSubstr("result=ok"));
    EXPECT_EQ(target.errors, "");
  }
  static void ExpectInherited(const v1::WindowEvent& verdict) {
    EXPECT_EQ(verdict.state(), v1::WINDOW_STATE_PASSED) << verdict.detail();
    EXPECT_EQ(verdict.reason(), v1::ATTACH_REASON_INHERITED_RUNTIME)
        << verdict.detail();
    EXPECT_FALSE(verdict.target_modified());
  }

  ExecutableDirectory directory_;
};

struct TreeCase {
  const char* name;
  Way way;
  bool open;  // the runtime, at the fork
};
class ForkedTreeTest : public ForkedTest, public testing::WithParamInterface<TreeCase> {
 protected:
  // Records a run of the process tree; returns the target's end.
  Finished Record(std::vector<std::string> more, Recording* recording) {
    if (GetParam().open) more.push_back("--open");
    std::vector<std::string> command = Command(more);
    if (GetParam().way == Way::kByDescriptor) command = WithoutCollector(command);
    return GetParam().way == Way::kLate ? RecordLate(command, recording)
                                        : RecordFromStart(command, recording);
  }

 private:
  Finished RecordFromStart(const std::vector<std::string>& command,
                           Recording* recording) {
    WatcherProcess watcher({"--auto"});
    EXPECT_TRUE(watcher.ready());
    Child target(command, {.dies_with_us = true});
    EXPECT_TRUE(Exists("ready"));
    Create("go");
    const Finished end = target.Wait();
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    *recording = ReadRecording(watcher.recording());
    return end;
  }
  Finished RecordLate(const std::vector<std::string>& command, Recording* recording) {
    Child target(command, {.dies_with_us = true});
    EXPECT_TRUE(Exists("ready"));
    Attacher attach(Path("t.rwa"), {target.pid()}, {"--attach-children"});
    EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
    Create("go");
    const Finished end = target.Wait();
    const Finished attacher = attach.child().Wait();
    // A child that cannot dispatch is no failure of a tree.
    EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
    *recording = ReadRecording(Path("t.rwa"));
    return end;
  }
};

// Sixteen children at once: each is held at its own window.
TEST_P(ForkedTreeTest, ChildrenAreRecordedOrPassed) {
  Recording recording;
  const Finished target = Record({"-c", "16"}, &recording);
  ExpectRight(target);
  const std::vector<pid_t> children = Children(target.output);
  ASSERT_EQ(children.size(), 16u);
  for (const pid_t pid : children) {
    const RecordedProcess child = recording.Process(pid);
    if (GetParam().open) {
      ExpectInherited(child.verdict);
      EXPECT_EQ(child.dispatches.size(), 0u);
      continue;
    }
    EXPECT_EQ(child.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << child.verdict.detail();
    EXPECT_EQ(child.dispatches.size(), 50u) << child.Explain();
    EXPECT_EQ(child.dropped(), 0u);
  }
  // The parent is recorded as if it had no children.
  for (const RecordedProcess& process : recording.processes) {
    if (std::find(children.begin(), children.end(),
                  static_cast<pid_t>(process.process.pid())) == children.end()) {
      EXPECT_GE(process.dispatches.size(), 50u);
      EXPECT_EQ(process.dropped(), 0u);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Ways, ForkedTreeTest,
    testing::Values(TreeCase{"AtTheWindowShutDown", Way::kAtWindow, false},
                    TreeCase{"AtTheWindowOpen", Way::kAtWindow, true},
                    TreeCase{"LateShutDown", Way::kLate, false},
                    TreeCase{"LateOpen", Way::kLate, true},
                    TreeCase{"ByDescriptorShutDown", Way::kByDescriptor, false},
                    TreeCase{"ByDescriptorOpen", Way::kByDescriptor, true}),
    [](const auto& test) { return std::string(test.param.name); });

// The parent was recorded by an earlier service, which has gone and left its collector
// idle. The child is attached to by itself.
class ForkedAloneTest : public ForkedTest {
 protected:
  // Starts the parent, records it for a moment, and lets it fork; returns when the
  // child runs.
  void StartChild(std::vector<std::string> more, bool in_container = false) {
    more.insert(more.end(),
                {"--child-ready", Path("child"), "--child-until", Path("end")});
    std::vector<std::string> command = Command(more);
    if (in_container) command = WithoutCollector(command);
    target_ = std::make_unique<Child>(command, Child::Options{.dies_with_us = true});
    ASSERT_TRUE(Exists("ready"));
    Attacher parent(Path("parent.rwa"), {target_->pid()});
    ASSERT_TRUE(parent.Attached()) << parent.child().PollOutput();
    const Finished end = parent.Stop();
    ASSERT_TRUE(end.exited_with(0)) << end.output << end.errors;
    Create("go");
    ASSERT_TRUE(Exists("child"));
    // The child may run before its parent has printed its process ID.
    std::vector<pid_t> children;
    ASSERT_TRUE(Eventually([&] {
      children = Children(target_->PollOutput());
      return children.size() == 1;
    }));
    child_ = children[0];
  }

  std::unique_ptr<Child> target_;
  pid_t child_ = 0;
};

// The collector's memory is the parent's: a take-over would record another process.
TEST_F(ForkedAloneTest, OneThatHasInheritedAnOpenRuntimeIsPassed) {
  StartChild({"--open"});
  if (HasFatalFailure()) return;
  Attacher attach(Path("t.rwa"), {child_});
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(1)) << attacher.output << attacher.errors;
  EXPECT_THAT(attacher.output, HasSubstr("\"inherited-runtime\""));
  Create("end");
  ExpectRight(target_->Wait());
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_EQ(recording.processes[0].process.pid(), static_cast<uint32_t>(child_));
  ExpectInherited(recording.processes[0].verdict);
  EXPECT_EQ(recording.processes[0].dispatches.size(), 0u);
}

class ForkedStartedTest : public ForkedAloneTest,
                          public testing::WithParamInterface<bool> {};

TEST_P(ForkedStartedTest, OneThatHasStartedItsOwnIsRecorded) {
  StartChild({}, /*in_container=*/GetParam());
  if (HasFatalFailure()) return;
  Attacher attach(Path("t.rwa"), {child_});
  ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Create("end");
  ExpectRight(target_->Wait());
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  const RecordedProcess& child = recording.processes[0];
  EXPECT_EQ(child.process.pid(), static_cast<uint32_t>(child_));
  EXPECT_EQ(child.verdict.collector().entry_path(), v1::ENTRY_PATH_LATE);
  EXPECT_GE(child.dispatches.size(), 50u);
  EXPECT_EQ(child.dropped(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Collectors, ForkedStartedTest, testing::Values(false, true),
                         [](const auto& test) {
                           return std::string(test.param ? "Sent" : "ByPath");
                         });

// Workers of a program that is busy while it starts them.
TEST_F(ForkedTest, WorkersOfABusyPool) {
  Child target(OnSimgpu({"busy_pool", "--ready", Path("ready"), "--until", Path("go"),
                         "-w", "8", "-n", "20"}),
               {.dies_with_us = true});
  ASSERT_TRUE(Exists("ready"));
  Attacher attach(Path("t.rwa"), {target.pid()}, {"--attach-children"});
  ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Create("go");
  const Finished end = target.Wait();
  ExpectRight(end);
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(0)) << attacher.output << attacher.errors;
  const Recording recording = ReadRecording(Path("t.rwa"));
  const std::vector<pid_t> forked = Children(end.output, "forked="),
                           spawned = Children(end.output, "spawned=");
  ASSERT_EQ(forked.size(), 4u);
  ASSERT_EQ(spawned.size(), 4u);
  for (const pid_t pid : forked) ExpectInherited(recording.Process(pid).verdict);
  for (const pid_t pid : spawned) {
    const RecordedProcess worker = recording.Process(pid);
    EXPECT_EQ(worker.dispatches.size(), 20u) << worker.verdict.detail();
    EXPECT_EQ(worker.dropped(), 0u);
  }
  const RecordedProcess pool = recording.Process(target.pid());
  EXPECT_GT(pool.dispatches.size(), 0u);
  EXPECT_LE(static_cast<int64_t>(pool.dispatches.size()), Printed(end.output, "made"));
  EXPECT_EQ(pool.account.dispatches_seen(), pool.dispatches.size());
  EXPECT_EQ(pool.dropped(), 0u);
}

}  // namespace
}  // namespace rocattach::testing_support
