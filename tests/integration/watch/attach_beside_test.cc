// Attaching to processes that another service, or a profiler, is in already.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/watch/running_fixture.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

TEST_F(AttachRunningTest, OnlyOneServiceReadsAProcess) {
  auto target = Start({});
  Attacher first(Path("first.rwa"), {target->pid()});
  ASSERT_TRUE(first.Attached());
  Attacher second(Path("second.rwa"), {target->pid()});
  const Finished refused = second.child().Wait();
  EXPECT_TRUE(refused.exited_with(1)) << refused.output << refused.errors;
  EXPECT_THAT(refused.output, HasSubstr("another rocattach service records"));
  Change();
  EXPECT_TRUE(target->Wait().exited_with(0));
  EXPECT_TRUE(first.child().Wait().exited_with(0));
}

#ifdef OTHER_TOOL
// A profiler that has been in the process from its start, below the collector's hooks.
class BesideAnotherToolTest : public AttachRunningTest {
 protected:
  std::unique_ptr<Child> StartWithTool(std::vector<std::string> options) {
    std::vector<std::string> command = {SimrocmRunPath(), "--preload", OTHER_TOOL};
    command.insert(command.end(), options.begin(), options.end());
    for (const std::string& word :
         {TargetPath("hip_late"), std::string("--until"), Path("go"),
          std::string("--ready"), Path("ready"), std::string("-t"), std::string("2")}) {
      command.push_back(word);
    }
    auto target = std::make_unique<Child>(
        command, Child::Options{.environment = {"SIMGPU_UNRUNG_NS=1000000000",
                                                "OTHER_TOOL=dispatch",
                                                "OTHER_TOOL_OUTPUT=" + Path("report"),
                                                "OTHER_TOOL_DONE=" + Path("done")},
                                .dies_with_us = true});
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
};

// The profiler's handlers must not see signals that the runtime does not know, so
// dispatches without a signal of the program's own have no times.
TEST_F(BesideAnotherToolTest, ItsInterceptQueuesAreRecordedWithoutTimes) {
  auto target = StartWithTool({});
  Attacher attach(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(attach.Attached());
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(attach.child().Wait().exited_with(0));
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_EQ(end.errors, "");
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  EXPECT_EQ(static_cast<int64_t>(Named(recording.processes[0], "After")),
            Printed(end.output, "after"));
  EXPECT_EQ(recording.processes[0].dropped(), 0u);
}

// The indices that the profiler gives out are not those of the queues.
TEST_F(BesideAnotherToolTest, ItsInlineInterpositionIsLeftAlone) {
  auto target = StartWithTool({"--interposition"});
  Attacher attach(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(Eventually([&] { return !attach.Events("not_attached").empty(); }));
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_EQ(end.errors, "");
  const Finished attacher = attach.child().Wait();
  EXPECT_TRUE(attacher.exited_with(1));
  EXPECT_THAT(attacher.output, HasSubstr("gives out the write indices"));
}
#endif

}  // namespace
}  // namespace rocattach::testing_support
