// --announce: a line in the target's standard error at the attach and one at the
// detach; nothing without it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

constexpr char kAttached[] = "rocattach: attached to this process\n";
constexpr char kDetached[] = "rocattach: detached from this process\n";

class AnnounceTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }

  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  std::string Text(const std::string& name) const {
    std::ifstream file(Path(name));
    return std::string(std::istreambuf_iterator<char>(file), {});
  }
  // Starts a program that dispatches until End(); `redirection` is for the shell.
  std::unique_ptr<Child> Start(const std::string& redirection) {
    std::string script = absl::StrCat(
        "exec ", Quoted({SimgpuRunPath(), TargetPath("hip_late")}), " --until ",
        Path("go"), " --ready ", Path("ready"), " ", redirection);
    auto target =
        std::make_unique<Child>(std::vector<std::string>{"bash", "-c", script},
                                Child::Options{.dies_with_us = true});
    EXPECT_TRUE(Eventually([&] { return std::filesystem::exists(Path("ready")); }));
    return target;
  }
  // Attaches and detaches; returns what the attacher has printed.
  std::string AttachOnce(pid_t pid, std::vector<std::string> options) {
    Attacher attach(Path("t.rwa"), {pid}, std::move(options));
    EXPECT_TRUE(attach.Attached()) << attach.child().PollOutput();
    const Finished end = attach.Stop();
    // The attach may have been too short to record a dispatch.
    EXPECT_TRUE(end.exited_with(0) || end.exited_with(4)) << end.output;
    return end.output;
  }
  Finished End(Child* target) {
    std::ofstream(Path("go")).put('\n');
    Finished end = target->Wait();
    EXPECT_TRUE(end.exited_with(0)) << end.output << end.errors;
    EXPECT_THAT(end.output, HasSubstr("result=ok"));
    return end;
  }

  ExecutableDirectory directory_;
};

TEST_F(AnnounceTest, InAPipe) {
  auto target = Start("");
  (void)AttachOnce(target->pid(), {"--announce"});
  (void)AttachOnce(target->pid(), {});
  EXPECT_EQ(End(target.get()).errors, absl::StrCat(kAttached, kDetached));
}

TEST_F(AnnounceTest, InAFile) {
  auto target = Start("2>>" + Path("log"));
  (void)AttachOnce(target->pid(), {"--announce"});
  EXPECT_EQ(End(target.get()).errors, "");
  EXPECT_EQ(Text("log"), absl::StrCat(kAttached, kDetached));
}

// Root could write to the file.
TEST_F(AnnounceTest, AFileThatTheProcessMayOnlyReadIsLeftAlone) {
  std::ofstream(Path("secret")) << "as it was\n";
  auto target = Start("2<" + Path("secret"));
  const std::string printed = AttachOnce(target->pid(), {"--announce"});
  EXPECT_THAT(printed, HasSubstr("\"event\":\"not_announced\""));
  EXPECT_THAT(printed, HasSubstr("the process may not write to it"));
  (void)End(target.get());
  EXPECT_EQ(Text("secret"), "as it was\n");
}

TEST_F(AnnounceTest, AProcessThatHasEndedGetsNoDetachLine) {
  auto target = Start("");
  Attacher attach(Path("t.rwa"), {target->pid()}, {"--announce"});
  ASSERT_TRUE(attach.Attached());
  EXPECT_EQ(End(target.get()).errors, kAttached);
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.output;
  EXPECT_EQ(end.output.find("not_announced"), std::string::npos) << end.output;
}

}  // namespace
}  // namespace rocattach::testing_support
