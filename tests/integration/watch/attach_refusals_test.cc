// Refused attaches: one clear message each, and the process continues as before.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/running_fixture.h"
#include "userspace/watch/late/running_process.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

struct BadCase {
  const char* name;
  std::string pid;
  const char* words;
  int status;
};
class BadPidTest : public AttachRunningTest,
                   public testing::WithParamInterface<BadCase> {};

TEST_P(BadPidTest, IsOneClearLine) {
  const BadCase& test = GetParam();
  const Finished end =
      Child({ClientPath(), "attach", "-p", test.pid, "-d", Path("out")}).Wait();
  EXPECT_TRUE(end.exited_with(test.status)) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(test.words));
  EXPECT_FALSE(std::filesystem::exists(Path("out"))) << "an output of nothing";
}

INSTANTIATE_TEST_SUITE_P(
    Pids, BadPidTest,
    testing::Values(BadCase{"Word", "abc", "is not a process ID", 2},
                    BadCase{"Zero", "0", "is not a process ID", 2},
                    BadCase{"Negative", "-5", "is not a process ID", 2},
                    BadCase{"Missing", "4194303", "there is no process", 1},
                    BadCase{"KernelThread", "2", "thread of the kernel", 1},
                    BadCase{"Init", "1", "process 1 ", 1}),
    [](const auto& test) { return std::string(test.param.name); });

// One result for each process, even if none could be attached to.
TEST_F(AttachRunningTest, EachProcessThatIsRefusedHasAResult) {
  Attacher attach(Path("t.rwa"), {4194303, getpid()});
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  std::set<int64_t> pids;
  for (const nlohmann::json& result : attach.Events("result")) {
    pids.insert(result.value("pid", int64_t{0}));
    EXPECT_EQ(result.value("status", ""), "not-attached");
    EXPECT_EQ(result.value("entry", ""), "none");
    EXPECT_THAT(result.value("reason", ""),
                testing::AnyOf("no-such-process", "no-runtime"));
    EXPECT_NE(result.value("detail", ""), "");
  }
  EXPECT_EQ(pids, (std::set<int64_t>{4194303, getpid()}));
  const auto ends = attach.Events("end");
  ASSERT_EQ(ends.size(), 1u) << end.output;
  EXPECT_FALSE(ends[0].value("complete", true));
  EXPECT_FALSE(std::filesystem::exists(Path("t.rwa")));
}

// The process ID is the command's own: the shell passes its ID and becomes the command.
TEST_F(AttachRunningTest, TheAttachersOwnProcessIsRefused) {
  const Finished end = Child({"bash", "-c",
                              absl::StrCat("exec ", Quoted(ClientPath()),
                                           " attach -p $$ -d ", Path("out"))})
                           .Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  EXPECT_THAT(end.errors, HasSubstr("is the one that is to attach"));
  EXPECT_FALSE(std::filesystem::exists(Path("out")));
}

// A control group is frozen by writing to a file, which depends on its version.
struct Freezer {
  const char* parent;
  const char* file;
  const char* frozen;
  const char* thawed;
};
constexpr Freezer kFreezers[] = {
    {"/sys/fs/cgroup/unified", "cgroup.freeze", "1", "0"},
    {"/sys/fs/cgroup", "cgroup.freeze", "1", "0"},
    {"/sys/fs/cgroup/freezer", "freezer.state", "FROZEN", "THAWED"},
};

bool WriteText(const std::filesystem::path& file, const std::string& text) {
  std::ofstream out(file);
  out << text << std::flush;
  return out.good();
}

// Neither is entered, and each continues as before once it can.
TEST_F(AttachRunningTest, AStoppedOrFrozenProcess) {
  auto expect_refusal = [this](const Child& target, const std::string& why) {
    Attacher attach(Path("t.rwa"), {target.pid()}, {"--attach-duration-msec", "20000"});
    const Finished end = attach.child().Wait();
    EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
    const std::vector<nlohmann::json> refused = attach.Events("not_attached");
    ASSERT_EQ(refused.size(), 1u) << end.output;
    EXPECT_EQ(refused[0].value("reason", ""), "not-running");
    EXPECT_THAT(refused[0].value("detail", ""), HasSubstr(why));
    std::filesystem::remove(Path("t.rwa"));
  };
  auto target = Start({"-t", "2", "-m", "10"});
  ASSERT_EQ(kill(target->pid(), SIGSTOP), 0);
  ASSERT_TRUE(Eventually([&] { return CheckIsRunning(target->pid()).ok() == false; }));
  expect_refusal(*target, "is stopped");
  ASSERT_EQ(kill(target->pid(), SIGCONT), 0);
  int freezers = 0;
  for (const Freezer& freezer : kFreezers) {
    const auto group = std::filesystem::path(freezer.parent) /
                       absl::StrCat("rocattach-test-", target->pid());
    std::error_code error;
    if (!std::filesystem::create_directory(group, error)) continue;
    // A directory that is not a control group has no such file.
    if (std::filesystem::exists(group / freezer.file) &&
        WriteText(group / "cgroup.procs", absl::StrCat(target->pid())) &&
        WriteText(group / freezer.file, freezer.frozen)) {
      ++freezers;
      ASSERT_TRUE(
          Eventually([&] { return CheckIsRunning(target->pid()).ok() == false; }));
      expect_refusal(*target, "is frozen");
      EXPECT_TRUE(WriteText(group / freezer.file, freezer.thawed));
      EXPECT_TRUE(
          WriteText(group.parent_path() / "cgroup.procs", absl::StrCat(target->pid())));
    }
    std::filesystem::remove(group, error);
  }
  if (freezers == 0) {
    Change();
    EXPECT_TRUE(target->Wait().exited_with(0));
    GTEST_SKIP() << "needs a control group that can be frozen";
  }
  Change();
  const Finished end = target->Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
  EXPECT_THAT(end.output, HasSubstr("result=ok"));
  EXPECT_EQ(end.errors, "");
}

TEST_F(AttachRunningTest, AThreadIsNotAProcess) {
  std::atomic<pid_t> tid = 0;
  std::atomic<bool> over = false;
  std::thread thread([&] {
    tid = gettid();
    while (!over) usleep(1000);
  });
  EXPECT_TRUE(Eventually([&] { return tid != 0; })) << "the thread does not start";
  const Finished end =
      Child({ClientPath(), "attach", "-p", std::to_string(tid), "-d", Path("out")})
          .Wait();
  over = true;
  thread.join();
  EXPECT_TRUE(end.exited_with(1)) << end.errors;
  EXPECT_THAT(end.errors, HasSubstr(absl::StrCat("is a thread of process ", getpid())));
}

}  // namespace
}  // namespace rocattach::testing_support
