// Processes that make their readers wait: their neighbours are attached to, and the
// service reports what happens and ends when it is asked to.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/integration/hostile/hostile_harness.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach::testing_support {
namespace {

constexpr uint64_t kDispatches = 20;
constexpr int kNeighbours = 100, kAtATime = 4;
// A number of attempts or rounds that lasts longer than any test.
constexpr const char* kForEver = "100000";

class StallTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    const std::string lacking = Attack("0").Wait().output;
    if (lacking.find("lacking: ") == std::string::npos) return;
    if (getenv("CI") != nullptr) FAIL() << lacking;
    GTEST_SKIP() << lacking;
  }
  ~StallTest() override {
    for (const std::string& folder : mounted_) umount2(folder.c_str(), MNT_DETACH);
  }
  // Gives the adversary what an administrator may give to every user: userfaultfd, and
  // a mount as by fusermount(1), whose device then only the adversary has open.
  Adversary Attack(const std::string& attempts) {
    std::vector<std::string> environment;
    const UniqueFd userfaultfd(open("/dev/userfaultfd", O_RDWR));  // it is inherited
    if (userfaultfd.valid()) {
      environment.push_back(
          absl::StrCat("HOSTILE_STALL_USERFAULTFD=", userfaultfd.get()));
    }
    const std::string attack = GetParam();
    const UniqueFd fuse(attack == "fuse" || attack == "exec" ? open("/dev/fuse", O_RDWR)
                                                             : -1);
    if (const std::string folder = MountFuse(fuse.get()); !folder.empty()) {
      environment.push_back(absl::StrCat("HOSTILE_STALL_FUSE=", fuse.get()));
      environment.push_back("HOSTILE_STALL_FOLDER=" + folder);
    }
    return Adversary("hostile_stall", {GetParam(), attempts}, std::move(environment));
  }
  // True if the attack keeps threads of the service waiting for seconds or longer. A
  // read through /proc/PID/mem does not wait for userfaultfd, but fails.
  static bool Keeps() {
    return GetParam() == std::string("punch") || GetParam() == std::string("fuse");
  }
  static std::string Page(LiveService* service, const std::string& path) {
    const auto events = service->watcher().Events("ready");
    if (events.empty()) return "";
    return Get(*ParseListenAddress(events[0].value("metrics", "")), path);
  }
  static double Metric(LiveService* service, const std::string& name) {
    const std::string page = Page(service, "/metrics");
    for (absl::string_view line : absl::StrSplit(page, '\n')) {
      double value = 0;
      if (absl::ConsumePrefix(&line, name + " ") && absl::SimpleAtod(line, &value)) {
        return value;
      }
    }
    return -1;
  }
  static bool HasRuntime(pid_t pid) {
    std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
    const std::string text(std::istreambuf_iterator<char>(maps), {});
    return text.find("libhsa-runtime64") != std::string::npos;
  }
  // Returns 0 if there is none.
  static pid_t FirstChild(pid_t pid) {
    std::ifstream children(absl::StrCat("/proc/", pid, "/task/", pid, "/children"));
    pid_t child = 0;
    return children >> child ? child : 0;
  }
  // Starts all neighbours, a few at a time, and waits for each.
  static std::vector<std::unique_ptr<Neighbour>> RunNeighbours(
      const std::vector<std::string>& extra) {
    std::vector<std::unique_ptr<Neighbour>> neighbours;
    for (int i = 0; i < kNeighbours; ++i) {
      neighbours.push_back(std::make_unique<Neighbour>(kDispatches, extra));
      if (i >= kAtATime) neighbours[static_cast<size_t>(i - kAtATime)]->Finish();
    }
    for (size_t i = kNeighbours - kAtATime; i < kNeighbours; ++i) {
      neighbours[i]->Finish();
    }
    return neighbours;
  }
  void ExpectNeighboursAreAttachedTo(const std::string& hold,
                                     const std::vector<std::string>& extra = {});
  void ExpectNeighbourIsAttachedToLate(const std::vector<std::string>& selection = {});

 private:
  // Returns the folder; empty if that is not possible.
  std::string MountFuse(int device) {
    if (device < 0 || chmod(directory_.path().c_str(), 0755) != 0) return "";
    const std::string folder = absl::StrCat(directory_.path(), "/", mounted_.size());
    const std::string options =
        absl::StrCat("fd=", device, ",rootmode=40000,user_id=", kAdversaryUid,
                     ",group_id=", kAdversaryUid);
    if (mkdir(folder.c_str(), 0755) != 0 ||
        mount("silent", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV,
              options.c_str()) != 0) {
      return "";
    }
    mounted_.push_back(folder);
    return folder;
  }

  ExecutableDirectory directory_;
  std::vector<std::string> mounted_;
};

// The attack's effect on the program itself, without a service.
TEST_P(StallTest, Native) {
  Adversary alone = Attack("1");
  const Finished end = alone.Wait();
  EXPECT_TRUE(end.exited_with(0)) << end.errors;
  EXPECT_NE(end.output.find("attempts=1"), std::string::npos) << end.output;
}

void StallTest::ExpectNeighboursAreAttachedTo(const std::string& hold,
                                              const std::vector<std::string>& extra) {
  LiveService service({"--auto", "--metrics-listen", "127.0.0.1:0",
                       "--hold-timeout-msec", "250", "--hold", hold});
  ASSERT_TRUE(service.ready());
  Adversary adversary = Attack(kForEver);
  ASSERT_TRUE(adversary.Says("begun"));
  // The attack is under way, and the service reports it.
  if (Keeps()) {
    EXPECT_TRUE(
        Eventually([&] { return Metric(&service, "rocattach_kept_threads") > 0; }));
  }
  const auto neighbours = RunNeighbours(extra);
  EXPECT_TRUE(service.alive());
  EXPECT_NE(Page(&service, "/readyz").find(" 200 "), std::string::npos);
  EXPECT_LT(Metric(&service, "rocattach_oldest_event_age_seconds"), 1);
  if (Keeps()) {
    // A thread of the service still cannot be ended, not even by SIGKILL.
    EXPECT_TRUE(
        Eventually([&] { return Metric(&service, "rocattach_kept_threads") > 0; }));
  }
  const Recording recording = service.Stop();
  EXPECT_EQ(kill(adversary.pid(), 0), 0) << "the attack goes on";
  adversary.Signal(SIGKILL);
  (void)adversary.Wait();
  for (const auto& neighbour : neighbours) neighbour->ExpectComplete(recording);
}

TEST_P(StallTest, NeighboursAreAttachedTo) {
  ExpectNeighboursAreAttachedTo("yielding");
}

// In this mode a thread traces the processes of a user before they have windows.
TEST_P(StallTest, NeighboursAreAttachedToInHoldModeSignal) {
  ExpectNeighboursAreAttachedTo("signal", {"--wait-msec", kTimeToSeize});
}

// A late attach to a neighbour is not delayed by the attack either.
void StallTest::ExpectNeighbourIsAttachedToLate(
    const std::vector<std::string>& selection) {
  Adversary adversary = Attack(kForEver);
  ASSERT_TRUE(adversary.Says("begun"));
  Child neighbour(OnSimgpu({"hsa_dispatch", "-n", "10", "--rounds", kForEver,
                            "--sleep-msec", "20"}),
                  {.dies_with_us = true, .uid = kHonestUid});
  ASSERT_TRUE(Eventually([&] { return HasRuntime(neighbour.pid()); }));
  std::vector<std::string> arguments = {"--auto", "--attach-running"};
  arguments.insert(arguments.end(), selection.begin(), selection.end());
  LiveService service(std::move(arguments));
  ASSERT_TRUE(service.ready());
  EXPECT_TRUE(Eventually([&] {
    (void)service.watcher().PollEvents("window");
    for (const auto& window : service.watcher().Events("window")) {
      if (window.value("pid", 0) == neighbour.pid()) {
        return window.value("verdict", "") == "attached";
      }
    }
    return false;
  }));
  (void)service.Stop();
  EXPECT_EQ(kill(neighbour.pid(), 0), 0);
  neighbour.Signal(SIGKILL);
  (void)neighbour.Wait();
  adversary.Signal(SIGKILL);
  (void)adversary.Wait();
}

TEST_P(StallTest, NeighboursAreAttachedToLate) {
  ExpectNeighbourIsAttachedToLate();
}

// Here the service must read a process's arguments to know whether to attach to it.
TEST_P(StallTest, NeighboursAreAttachedToLateByTheirNames) {
  ExpectNeighbourIsAttachedToLate({"-n", "hsa_dispatch"});
}

// An attach to the attacker itself gets an answer, and keeps to its duration.
TEST_P(StallTest, AnAttachToItselfEnds) {
  Adversary adversary = Attack(kForEver);
  ASSERT_TRUE(adversary.Says("begun"));
  pid_t attacker = 0;
  ASSERT_TRUE(Eventually([&] {
    attacker = FirstChild(adversary.pid());
    return attacker != 0;
  }));
  ExecutableDirectory output;
  Child attach(
      {ClientPath(), "attach", "-p", absl::StrCat(attacker), "--attach-duration-msec",
       "1000", "-d", output.path(), "--collector", CollectorPath()},
      {.dies_with_us = true});
  const Finished finished = attach.Wait();
  EXPECT_TRUE(WIFEXITED(finished.status)) << finished.status;
  EXPECT_NE(finished.errors.find(absl::StrCat("process ", attacker)), std::string::npos)
      << finished.errors;
  EXPECT_EQ(kill(adversary.pid(), 0), 0) << "the attack goes on";
  adversary.Signal(SIGKILL);
  (void)adversary.Wait();
}

INSTANTIATE_TEST_SUITE_P(Attacks, StallTest,
                         testing::Values("punch", "protect", "userfault", "fuse",
                                         "exec"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace rocattach::testing_support
