#include "userspace/service/run_loop.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

constexpr auto kOutput = ChildCommand::Output::kInherited;

class RunLoopTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(loop_.status().ok()) << loop_.status(); }
  void TearDown() override {
    if (!loop_.has_command()) return;
    loop_.RequestStop(SIGKILL);
    loop_.Wait(0, {});
  }
  void Start(const std::vector<std::string>& command) {
    const absl::Status status = loop_.StartCommand(command, {}, kOutput);
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_TRUE(loop_.has_command());
  }
  // The signal that ended the command; 0 if it has exited or is still running.
  static int SignalOf(const RunEnd& end) {
    if (!end.command_status.has_value() || !WIFSIGNALED(*end.command_status)) return 0;
    return WTERMSIG(*end.command_status);
  }

  RunLoop loop_;
};

TEST_F(RunLoopTest, EndsWithTheCommand) {
  Start({"sh", "-c", "exit 3"});
  const RunEnd end = loop_.Wait(0, {});
  ASSERT_TRUE(end.command_status.has_value());
  EXPECT_EQ(WEXITSTATUS(*end.command_status), 3);
  EXPECT_FALSE(end.interrupted);
  EXPECT_FALSE(end.command_runs_on);
  EXPECT_FALSE(loop_.has_command());
}

TEST_F(RunLoopTest, ACommandThatCannotBeRunIsAnError) {
  const absl::Status status = loop_.StartCommand({"/nonexistent"}, {}, kOutput);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(loop_.has_command());
}

TEST_F(RunLoopTest, ADurationThatEndsBeforeTheCommandLeavesItRunning) {
  Start({"sleep", "1000"});
  const RunEnd end = loop_.Wait(/*duration_ns=*/1, {});
  EXPECT_TRUE(end.command_runs_on);
  EXPECT_FALSE(end.command_status.has_value());
  EXPECT_TRUE(loop_.has_command());
  loop_.RequestStop(SIGTERM);
  EXPECT_EQ(SignalOf(loop_.Wait(0, {})), SIGTERM);
}

TEST_F(RunLoopTest, ADurationAloneLeavesNothingRunning) {
  const RunEnd end = loop_.Wait(/*duration_ns=*/1, {});
  EXPECT_FALSE(end.command_runs_on);
  EXPECT_FALSE(end.interrupted);
}

TEST_F(RunLoopTest, TheDurationCountsFromWhenItBegins) {
  const WakeEvent changed;
  int ticks = 0;
  RunLoop::Events events;
  events.changed = &changed;
  events.duration_began = [&](uint64_t now) { return ticks >= 3 ? now : 0; };
  events.on_tick = [&] {
    ++ticks;
    changed.Signal();
  };
  changed.Signal();
  loop_.Wait(/*duration_ns=*/1, events);
  EXPECT_GE(ticks, 3);
}

TEST_F(RunLoopTest, WithoutACommandAStopEndsItAtOnce) {
  loop_.RequestStop(0);
  const RunEnd end = loop_.Wait(0, {});
  EXPECT_TRUE(end.interrupted);
  EXPECT_FALSE(loop_.StopRequestedAgain()) << "it has been served";
  loop_.RequestStop(0);
  EXPECT_TRUE(loop_.StopRequestedAgain());
  EXPECT_FALSE(loop_.StopRequestedAgain());
}

TEST_F(RunLoopTest, AStopIsForwardedToTheCommandWhichIsWaitedFor) {
  Start({"sleep", "1000"});
  loop_.RequestStop(SIGINT);
  const RunEnd end = loop_.Wait(0, {});
  EXPECT_TRUE(end.interrupted);
  EXPECT_EQ(SignalOf(end), SIGINT);
}

TEST_F(RunLoopTest, ASecondStopDoesNotWaitForTheCommand) {
  Start({"sleep", "1000"});
  loop_.RequestStop(0);
  int ticks = 0;
  RunLoop::Events events;
  // The first tick comes before the first stop request has been served.
  events.on_tick = [&] {
    if (++ticks == 2) loop_.RequestStop(0);
  };
  const RunEnd end = loop_.Wait(0, events);
  EXPECT_TRUE(end.interrupted);
  EXPECT_FALSE(end.command_status.has_value());
  EXPECT_TRUE(loop_.has_command());
}

TEST_F(RunLoopTest, AWatchedDescriptorIsServed) {
  int fds[2];
  ASSERT_EQ(pipe2(fds, O_CLOEXEC), 0);
  const UniqueFd reader(fds[0]), writer(fds[1]);
  ASSERT_EQ(write(writer.get(), "x", 1), 1);
  int served = 0;
  RunLoop::Events events;
  events.watched_fd = reader.get();
  events.on_watched = [&] {
    char byte;
    EXPECT_EQ(read(reader.get(), &byte, 1), 1);
    ++served;
    loop_.RequestStop(0);
  };
  loop_.Wait(0, events);
  EXPECT_EQ(served, 1);
}

}  // namespace
}  // namespace rocattach
