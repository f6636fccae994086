// The collector's file is overwritten, upgraded, or differs in the process's root.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/watched_run.h"
#include "tests/places.h"

namespace rocattach::testing_support {
namespace {

namespace fs = std::filesystem;

constexpr char kOtherLibrary[] = "/usr/lib/x86_64-linux-gnu/libm.so.6";

class CollectorFileTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    path_ = directory_.path() + "/librocattach-collector.so";
    fs::copy_file(CollectorPath(), path_);
  }

  // Like cp onto an existing file: the same inode, truncated first.
  void Overwrite() const {
    std::ifstream from(fs::canonical(kOtherLibrary), std::ios::binary);
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << from.rdbuf();
  }
  // Like a package manager: a new file replaces the old one by rename.
  void Upgrade() const {
    fs::copy_file(fs::canonical(kOtherLibrary), path_ + ".new");
    fs::rename(path_ + ".new", path_);
  }
  // The command in a mount namespace of its own, prepared by `script`: "$1" is the
  // collector's path.
  std::vector<std::string> Elsewhere(const std::string& script,
                                     std::vector<std::string> command) const {
    std::vector<std::string> words = {
        "unshare",
        "-m",
        "sh",
        "-c",
        "mount --make-rprivate / && " + script + " && shift && exec \"$@\"",
        "sh",
        path_};
    for (std::string& word : command) words.push_back(std::move(word));
    return words;
  }

  ExecutableDirectory directory_;
  std::string path_;
};

// Hides the service's own copy, as a container does, but not the original, "$1".
constexpr char kHideCopy[] =
    "for d in /run /dev/shm /var/tmp; do case \"$1\" in $d/*) ;; "
    "*) mount -t tmpfs none $d ;; esac; done";

struct ChangeCase {
  const char* name;
  bool upgrade;
};

class CollectorChangeTest : public CollectorFileTest,
                            public testing::WithParamInterface<ChangeCase> {};

TEST_P(CollectorChangeTest, RunningTargetsLiveOnAndNewOnesAreAttached) {
  if (IsSkipped() || HasFatalFailure()) return;
  const std::vector<std::string> command =
      OnSimgpu({"hsa_dispatch", "-n", "20", "--rounds", "10", "--sleep-msec", "150"});
  const Finished native = Child(command).Wait();
  ASSERT_TRUE(native.exited_with(0)) << native.errors;
  WatcherProcess watcher({"--auto", "--collector", path_});
  ASSERT_TRUE(watcher.ready());
  Child target(command);
  const pid_t first = target.pid();
  const std::string memory = "memfd:rocattach";
  EXPECT_TRUE(Eventually([&] {
    std::ifstream maps("/proc/" + std::to_string(first) + "/maps");
    const std::string text(std::istreambuf_iterator<char>(maps), {});
    return text.find(memory) != std::string::npos;
  }));
  GetParam().upgrade ? Upgrade() : Overwrite();
  Finished result = target.Wait();
  EXPECT_EQ(result.status, native.status);
  EXPECT_EQ(result.errors, native.errors);
  EXPECT_EQ(Reported(result.output, "dispatches"), 200);
  Child later(OnSimgpu({"hsa_dispatch", "-n", "7"}));
  const pid_t second = later.pid();
  result = later.Wait();
  EXPECT_TRUE(result.exited_with(0)) << result.errors;
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  for (auto [pid, dispatches] : {std::pair(first, 200u), std::pair(second, 7u)}) {
    const RecordedProcess process = recording.Process(pid);
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.dispatches.size(), dispatches);
  }
}

INSTANTIATE_TEST_SUITE_P(Changes, CollectorChangeTest,
                         testing::Values(ChangeCase{"Overwritten", false},
                                         ChangeCase{"Upgraded", true}),
                         [](const auto& test) { return std::string(test.param.name); });

// A file with the same name, in a root that somebody else has made, is not loaded: the
// process is sent the service's own copy.
TEST_F(CollectorFileTest, AnotherFileInTheTargetsRootIsNotLoaded) {
  const std::string fake = directory_.path() + "/fake.so";
  fs::copy_file(fs::canonical(kOtherLibrary), fake);
  const std::vector<std::string> command =
      Elsewhere(std::string(kHideCopy) + " && mount --bind " + fake + " \"$1\"",
                OnSimgpu({"hsa_dispatch", "-n", "7"}));
  const RecordedProcess process = RunWatched(command, {"--auto", "--collector", path_});
  EXPECT_EQ(process.dispatches.size(), 7u);
}

// A file that cannot be mapped executable, or that the process's user may not read.
TEST_F(CollectorFileTest, AFileThatCannotBeUsedIsReplacedByASentOne) {
  for (const char* script :
       {"mount --bind \"${1%/*}\" \"${1%/*}\" && "
        "mount -o remount,bind,noexec \"${1%/*}\"",
        "chmod 0600 \"$1\" && path=$1 && shift && "
        "set -- \"$path\" setpriv --reuid=65534 --clear-groups \"$@\""}) {
    SCOPED_TRACE(script);
    const std::vector<std::string> command =
        Elsewhere(std::string(kHideCopy) + " && " + script,
                  ReachableByEverybody(OnSimgpu({"hsa_dispatch", "-n", "7"}),
                                       ROCATTACH_TEST_BUILD,
                                       {"tests/simgpu/lib", "tests/targets"}));
    const RecordedProcess process =
        RunWatched(command, {"--auto", "--collector", path_});
    EXPECT_EQ(process.dispatches.size(), 7u);
  }
}

// If only the original is mounted, it is loaded as long as it is unchanged; once it has
// changed, the service's own contents are sent.
TEST_F(CollectorFileTest, AContainerLoadsTheOriginal) {
  const std::vector<std::string> command =
      Elsewhere(kHideCopy, OnSimgpu({"hsa_dispatch", "-n", "7"}));
  WatcherProcess watcher({"--auto", "--collector", path_});
  ASSERT_TRUE(watcher.ready());
  EXPECT_TRUE(Child(command).Wait().exited_with(0));
  Overwrite();
  // The result of the last look at the file stays valid for a second.
  usleep(1'200'000);
  EXPECT_TRUE(Child(command).Wait().exited_with(0));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Recording recording = ReadRecording(watcher.recording());
  ASSERT_EQ(recording.processes.size(), 2u);
  for (const RecordedProcess& process : recording.processes) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
        << process.verdict.detail();
    EXPECT_EQ(process.dispatches.size(), 7u);
  }
}

// A service removes its copy when it ends; the copy of a service that was killed is
// removed by the next one.
TEST_F(CollectorFileTest, CopiesAreRemoved) {
  auto copies = [] {
    int count = 0;
    for (const char* base : {"/run", "/dev/shm", "/var/tmp", "/tmp"}) {
      std::error_code error;
      for (const auto& entry : fs::directory_iterator(base, error)) {
        count += entry.path().filename().string().rfind("rocattach-collector-", 0) == 0;
      }
    }
    return count;
  };
  {
    WatcherProcess watcher({"--auto"});
    ASSERT_TRUE(watcher.ready());
    EXPECT_EQ(copies(), 1);
    EXPECT_TRUE(watcher.Stop().exited_with(0));
    EXPECT_EQ(copies(), 0);
  }
  WatcherProcess killed({"--auto"});
  ASSERT_TRUE(killed.ready());
  killed.Kill();
  EXPECT_EQ(copies(), 1);
  WatcherProcess next({"--auto"});
  ASSERT_TRUE(next.ready());
  EXPECT_EQ(copies(), 1);
  EXPECT_TRUE(next.Stop().exited_with(0));
  EXPECT_EQ(copies(), 0);
}

}  // namespace
}  // namespace rocattach::testing_support
