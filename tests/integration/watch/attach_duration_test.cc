// Duration and end of `rocattach attach`: each attach that has begun gets its verdict,
// however short the duration. Also --wait if a process cannot be entered yet.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/running_fixture.h"

namespace rocattach::testing_support {
namespace {

using nlohmann::json;
using testing::HasSubstr;

class AttachDurationTest : public AttachRunningTest {
 protected:
  // Attaches for the shortest time; expects that each process is attached to.
  std::vector<json> AttachBriefly(const std::vector<pid_t>& pids,
                                  std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--attach-duration-msec", "1"});
    std::filesystem::remove(Path("t.rwa"));
    Attacher attach(Path("t.rwa"), pids, std::move(more));
    const Finished end = attach.child().Wait();
    EXPECT_EQ(attach.Events("attached").size(), pids.size()) << end.output;
    EXPECT_THAT(attach.Events("not_attached"), testing::IsEmpty()) << end.output;
    const std::vector<json> results = attach.Events("result");
    EXPECT_EQ(results.size(), pids.size()) << end.output;
    for (const json& result : results) {
      EXPECT_THAT(result.value("status", ""),
                  testing::AnyOf("recorded", "nothing-happened"));
    }
    EXPECT_TRUE(end.exited_with(0) || end.exited_with(4)) << end.output << end.errors;
    return results;
  }
  // True if the program's child, which does its work, handles SIGINT.
  static bool HandlesInterrupts(pid_t parent) {
    pid_t pid = 0;
    std::ifstream(absl::StrCat("/proc/", parent, "/task/", parent, "/children")) >> pid;
    std::ifstream status(absl::StrCat("/proc/", pid, "/status"));
    for (std::string line; std::getline(status, line);) {
      if (!line.starts_with("SigCgt:")) continue;
      return (strtoull(&line[strlen("SigCgt:")], nullptr, 16) >> (SIGINT - 1) & 1) != 0;
    }
    return false;
  }
  void ExpectUnharmed(Child* target) {
    Change();
    const Finished end = target->Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_THAT(end.output, HasSubstr("result=ok"));
    EXPECT_EQ(end.errors, "");
  }
};

// The attach to an idle process takes half a second, and the collector's report always
// takes longer than the duration.
TEST_F(AttachDurationTest, CountsFromTheVerdict) {
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"-t", "2", "-m", "20"}, {"--idle", "-m", "20"}}) {
    auto target = Start(arguments);
    AttachBriefly({target->pid()});
    ExpectUnharmed(target.get());
  }
}

// With several processes: each is recorded for at least the duration.
TEST_F(AttachDurationTest, CountsFromTheLastVerdict) {
  std::filesystem::remove(Path("go"));
  auto busy = Launch({"hip_late", "-t", "2", "-m", "20"}, "ready-busy");
  auto idle = Launch({"hip_late", "--idle", "-m", "20"}, "ready-idle");
  for (const char* ready : {"ready-busy", "ready-idle"}) {
    ASSERT_TRUE(Eventually([&] { return std::filesystem::exists(Path(ready)); }));
  }
  AttachBriefly({busy->pid(), idle->pid()});
  ExpectUnharmed(busy.get());
  ExpectUnharmed(idle.get());
}

TEST_F(AttachDurationTest, CountsInATreeAsWell) {
  auto target = Start({"--idle", "-m", "20"});
  AttachBriefly({target->pid()}, {"--attach-children"});
  ExpectUnharmed(target.get());
}

// There is no attach from which the duration could count.
TEST_F(AttachDurationTest, EndsWhereNoProcessOfATreeUsesAGpu) {
  Child shell({"bash", "-c",
               absl::StrCat("until [ -e ", Path("go"),
                            " ]; do sleep 0.05; done; echo result=ok")},
              {.dies_with_us = true});
  Attacher attach(Path("t.rwa"), {shell.pid()},
                  {"--attach-children", "--attach-duration-msec", "100"});
  (void)attach.child().Wait();
  EXPECT_EQ(kill(shell.pid(), 0), 0);
  ExpectUnharmed(&shell);
}

// Ctrl-C while the attach is under way.
TEST_F(AttachDurationTest, ARequestToStopLeavesNoVerdictOpen) {
  auto target = Start({"--idle", "-m", "20"});
  Attacher attach(Path("t.rwa"), {target->pid()});
  ASSERT_TRUE(Eventually([&] { return HandlesInterrupts(attach.child().pid()); }));
  const Finished end = attach.Stop();
  const std::vector<json> attached = attach.Events("attached");
  const std::vector<json> refused = attach.Events("not_attached");
  ASSERT_EQ(attached.size() + refused.size(), 1u) << end.output;
  for (const json& event : refused) {
    EXPECT_THAT(event.value("detail", ""), HasSubstr("the recording ended"));
  }
  ExpectUnharmed(target.get());
}

// Detaches right after the attach, as a program does that uses ROCm's calls.
TEST_F(AttachDurationTest, ADetachRightAfterTheAttach) {
  auto target = Start({"-t", "2", "-m", "20"});
  for (int i = 0; i < 3; ++i) {
    std::filesystem::remove(Path("t.rwa"));
    Attacher attach(Path("t.rwa"), {target->pid()});
    ASSERT_TRUE(attach.Saw("ready")) << attach.child().PollOutput();
    const Finished end = attach.Stop();
    EXPECT_TRUE(end.exited_with(0) || end.exited_with(4)) << end.output << end.errors;
    EXPECT_EQ(attach.Events("attached").size(), 1u) << end.output;
  }
  ExpectUnharmed(target.get());
}

// A thread that lists the libraries prevents all loading, so no attach is possible.
class AttachUnenterableTest : public AttachDurationTest {
 protected:
  std::unique_ptr<Child> StartListing() {
    std::filesystem::remove(Path("free"));
    return Start({"--idle", "-m", "20", "--listing", Path("free")});
  }
  void Free() { std::ofstream(Path("free")).put('\n'); }
};

TEST_F(AttachUnenterableTest, IsFinalWithoutWait) {
  auto target = StartListing();
  Attacher attach(Path("t.rwa"), {target->pid()});
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  EXPECT_THAT(attach.Events("not_attached"), testing::Not(testing::IsEmpty()));
  Free();
  ExpectUnharmed(target.get());
}

TEST_F(AttachUnenterableTest, IsTriedAgainWithWait) {
  auto target = StartListing();
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  const json waiting = attach.Events("waiting")[0];
  EXPECT_EQ(waiting.value("reason", ""), "no-safe-point") << waiting;
  EXPECT_THAT(waiting.value("detail", ""), HasSubstr("can be entered now"));
  EXPECT_THAT(attach.Events("not_attached"), testing::IsEmpty());
  Free();
  ASSERT_TRUE(attach.Attached()) << attach.child().PollOutput();
  Change();
  const Finished end = target->Wait(), attacher = attach.child().Wait();
  const Recording recording = ReadRecording(Path("t.rwa"));
  ASSERT_EQ(recording.processes.size(), 1u);
  ExpectExact(recording.processes[0], end, attacher);
  // Reported once, however many attempts there were.
  EXPECT_EQ(attach.Events("waiting").size(), 1u) << attacher.output;
  for (const v1::WindowEvent& window : recording.processes[0].windows) {
    EXPECT_NE(window.state(), v1::WINDOW_STATE_REFUSED) << window.detail();
  }
}

TEST_F(AttachUnenterableTest, IsGivenUpAfterTheTimeout) {
  auto target = StartListing();
  Attacher attach(Path("t.rwa"), {target->pid()},
                  {"--wait", "--wait-timeout-msec", "1500"});
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  const std::vector<json> refused = attach.Events("not_attached");
  ASSERT_EQ(refused.size(), 1u) << end.output;
  EXPECT_EQ(refused[0].value("reason", ""), "timeout");
  EXPECT_THAT(refused[0].value("detail", ""), HasSubstr("could not be entered within"));
  Free();
  ExpectUnharmed(target.get());
}

TEST_F(AttachUnenterableTest, EndsWithTheProcess) {
  auto target = StartListing();
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  target->Signal(SIGKILL);
  target->Wait();
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  EXPECT_EQ(attach.Events("not_attached").size(), 1u) << end.output;
}

TEST_F(AttachUnenterableTest, EndsWithCtrlC) {
  auto target = StartListing();
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--wait"});
  ASSERT_TRUE(attach.Saw("waiting")) << attach.child().PollOutput();
  const Finished end = attach.Stop();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  const std::vector<json> refused = attach.Events("not_attached");
  ASSERT_EQ(refused.size(), 1u) << end.output;
  EXPECT_EQ(refused[0].value("reason", ""), "cancelled");
  Free();
  ExpectUnharmed(target.get());
}

}  // namespace
}  // namespace rocattach::testing_support
