// Copies of the HSA runtime that appear while the service runs: each has its probe
// before its hsa_init can be called, wherever its file is and whatever happens to the
// file. Each process is compared with a run without a service.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/containers.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/kill_rounds.h"

namespace rocattach::testing_support {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr char kRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";
constexpr char kName[] = "libhsa-runtime64.so.1";
constexpr size_t kAtOnce = 24;
constexpr size_t kDispatches = 10;

class DiscoveryTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    RunNative();
    watcher_ = std::make_unique<WatcherProcess>(Options());
    ASSERT_TRUE(watcher_->ready());
  }

  void RunNative() {
    native_ = RunTarget({"hsa_dispatch", "-n", absl::StrCat(kDispatches)});
    ASSERT_TRUE(native_.exited_with(0)) << native_.errors;
  }
  virtual std::vector<std::string> Options() const { return {"--auto"}; }
  std::string Folder(size_t number) const {
    return absl::StrCat(directory_.path(), "/", number);
  }
  std::string Copy(size_t number) const {
    return absl::StrCat(Folder(number), "/", kName);
  }
  void MakeCopy(size_t number) const {
    fs::create_directories(Folder(number));
    fs::copy_file(kRuntime, Copy(number));
  }
  std::string Merged(size_t number) const { return Folder(number) + "-merged"; }
  // The target in a mount namespace of its own, which alone contains its copy.
  std::vector<std::string> InOwnNamespace(size_t number) const {
    return Unshared({},
                    absl::StrCat("mount -t tmpfs none ", Folder(number), " && cp -L ",
                                 kRuntime, " ", Copy(number), " && exec \"$@\""),
                    Target());
  }
  // The target with an overlay over the copy's folder, after a `change` to the overlay.
  std::vector<std::string> OnOverlay(size_t number, const std::string& change) const {
    fs::create_directories(Merged(number));
    // Not every file system can hold the upper layer of an overlay; a tmpfs can.
    return Unshared(
        {},
        absl::StrCat(
            "merged=", Merged(number), "; mount -t tmpfs none /mnt && mkdir ",
            "/mnt/u /mnt/w && mount -t overlay overlay -o lowerdir=", Folder(number),
            ",upperdir=/mnt/u,workdir=/mnt/w $merged && ", change, " && exec \"$@\""),
        Target());
  }
  static std::vector<std::string> Target() {
    return OnSimgpu({"hsa_dispatch", "-n", absl::StrCat(kDispatches)});
  }
  static Child::Options From(const std::string& folder) {
    return {.environment = {"LD_LIBRARY_PATH=" + folder}, .dies_with_us = true};
  }
  void ExpectAsNative(const Finished& target) const {
    EXPECT_TRUE(target.exited_with(0)) << target.output << target.errors;
    EXPECT_EQ(Printed(target.output, "increment"),
              Printed(native_.output, "increment"));
    EXPECT_EQ(target.errors, native_.errors);
  }
  static uint64_t Missed(WatcherProcess* watcher) {
    const auto summaries = watcher->Events("summary");
    EXPECT_EQ(summaries.size(), 1u);
    if (summaries.empty()) return 0;
    uint64_t missed = 0;
    for (const auto& [reason, count] : summaries[0]["missed_windows"].items()) {
      missed += count.get<uint64_t>();
      if (count != 0)
        printf("missed windows, %s: %s\n", reason.c_str(), count.dump().c_str());
    }
    return missed;
  }
  // Prints the service's events for a process.
  void PrintEvents(pid_t pid) const {
    printf("process %d was not held at its window:\n", pid);
    for (const auto& event : watcher_->Events()) {
      if (event.value("pid", 0) == pid) printf("  %s\n", event.dump().c_str());
    }
  }
  // Stops the service. Expects that each of these processes was held at its window and
  // recorded from its first dispatch on, except at most as many as the service counted
  // as missed. Returns the number of processes that were not held.
  uint64_t ExpectAllSeen(const std::vector<pid_t>& pids, const std::string& library) {
    const Finished service = watcher_->Stop();
    EXPECT_TRUE(service.exited_with(0)) << service.errors;
    const uint64_t missed = Missed(watcher_.get());
    const Recording recording = ReadRecording(watcher_->recording());
    EXPECT_TRUE(recording.damage.empty());
    std::set<pid_t> seen;
    for (const RecordedProcess& process : recording.processes) {
      const auto pid = static_cast<pid_t>(process.process.pid());
      if (std::find(pids.begin(), pids.end(), pid) == pids.end()) continue;
      if (process.verdict.mode() != v1::WINDOW_MODE_HELD) continue;
      EXPECT_TRUE(seen.insert(pid).second) << pid;
      EXPECT_EQ(process.dispatches.size(), kDispatches) << pid;
      EXPECT_THAT(process.process.hsa_library(), HasSubstr(library));
    }
    for (pid_t pid : pids) {
      if (seen.count(pid) == 0) PrintEvents(pid);
    }
    EXPECT_GE(seen.size() + missed, pids.size()) << "a miss that is not counted";
    return pids.size() - seen.size();
  }

  ExecutableDirectory directory_;
  Finished native_;
  std::unique_ptr<WatcherProcess> watcher_;
};

TEST_F(DiscoveryTest, ACopyInAPlainFolderIsProbedBeforeItIsStarted) {
  MakeCopy(1);
  std::vector<pid_t> pids;
  // The second process finds the probe already set.
  for (int i = 0; i < 2; ++i) {
    Child target(Target(), From(Folder(1)));
    ExpectAsNative(target.Wait());
    pids.push_back(target.pid());
  }
  EXPECT_EQ(ExpectAllSeen(pids, Folder(1)), 0u);
}

class NoHoldTest : public DiscoveryTest {
 protected:
  std::vector<std::string> Options() const override {
    return {"--auto", "--hold", "none"};
  }
};

// A process that starts a new copy before that has its probe is entered late otherwise.
TEST_F(NoHoldTest, NoProcessIsAttachedTo) {
  for (size_t number = 0; number < 3; ++number) {
    MakeCopy(number);
    Child target(
        OnSimgpu({"hsa_dispatch", "-n", "1", "--rounds", "30", "--sleep-msec", "100"}),
        From(Folder(number)));
    EXPECT_TRUE(target.Wait().exited_with(0));
  }
  const Finished service = watcher_->Stop();
  EXPECT_TRUE(service.exited_with(0)) << service.errors;
  EXPECT_TRUE(watcher_->Events("attached").empty()) << service.output;
}

TEST_F(DiscoveryTest, ACopyInsideAMountNamespaceIsProbed) {
  fs::create_directories(Folder(1));
  Child target(InOwnNamespace(1), From(Folder(1)));
  ExpectAsNative(target.Wait());
  EXPECT_FALSE(fs::exists(Copy(1)));
  EXPECT_EQ(ExpectAllSeen({target.pid()}, kName), 0u);
}

class FewCopiesTest : public DiscoveryTest {
 protected:
  static constexpr size_t kMost = 4;
  std::vector<std::string> Options() const override {
    return {"--auto", "--max-libraries", absl::StrCat(kMost)};
  }
};

// As containers come and go, the files of those that have ended are not deleted, but
// unreachable: their probes make room for others, even while a container runs on whose
// file has the same inode number on a file system of its own.
TEST_F(FewCopiesTest, UnreachableCopiesMakeRoom) {
  fs::create_directories(Folder(0));
  const std::string copy = absl::StrCat("mount -t tmpfs none ", Folder(0), " && cp -L ",
                                        kRuntime, " ", Copy(0), " && exec \"$@\"");
  Child stays(Unshared({}, copy,
                       OnSimgpu({"hsa_dispatch", "-n", "10", "--rounds", "1000000",
                                 "--sleep-msec", "50"})),
              From(Folder(0)));
  ASSERT_TRUE(Eventually([&] { return watcher_->PollEvents("window") > 0; }));
  std::vector<pid_t> pids;
  for (size_t i = 1; i <= 6 * kMost; ++i) {
    fs::create_directories(Folder(i));
    Child target(InOwnNamespace(i), From(Folder(i)));
    ExpectAsNative(target.Wait());
    pids.push_back(target.pid());
  }
  EXPECT_EQ(ExpectAllSeen(pids, kName), 0u);
  stays.Signal(SIGKILL);
  (void)stays.Wait();
}

// As in a container: the file is in a lower layer, or has been copied up.
TEST_F(DiscoveryTest, ACopyOnAnOverlayIsProbed) {
  std::vector<pid_t> pids;
  size_t number = 0;
  for (const char* change : {"true", "touch $merged/libhsa-runtime64.so.1"}) {
    MakeCopy(++number);
    Child target(OnOverlay(number, change), From(Merged(number)));
    const Finished end = target.Wait();
    if (end.errors.find("overlay") != std::string::npos) {
      GTEST_SKIP() << end.errors;
    }
    ExpectAsNative(end);
    pids.push_back(target.pid());
  }
  EXPECT_EQ(ExpectAllSeen(pids, "merged"), 0u);
}

// Starts kAtOnce processes at a time, each with a copy of its own, which is removed
// afterwards. ROCATTACH_TEST_COPIES sets the total number, for example 10000.
class ManyCopiesTest : public DiscoveryTest {
 protected:
  struct Launch {
    std::vector<std::string> command;
    std::string folder;  // searched by the loader
  };
  // Makes the copy with this number, and returns how to launch its process.
  using LaunchFunction = std::function<Launch(size_t number)>;

  // Runs `change` on each file at some moment while it is being loaded.
  LaunchFunction InFolder(const std::string& change) {
    return [this, change](size_t number) -> Launch {
      MakeCopy(number);
      // The change must not come before the loader has opened the file.
      const std::string script =
          absl::StrCat("(n=0; until [[ $(</proc/$$/maps) == *", Copy(number),
                       "* ]] || [ $n -gt 300 ]; ", "do n=$((n+1)); done; ", change,
                       ") >/dev/null 2>&1 & exec ", Quoted(Target()));
      return {{"bash", "-c", script, Copy(number)}, Folder(number)};
    };
  }
  void Round(size_t first, size_t count, const LaunchFunction& launch,
             std::vector<pid_t>* pids) {
    std::vector<std::unique_ptr<Child>> targets;
    for (size_t i = first; i < first + count; ++i) {
      const Launch next = launch(i);
      targets.push_back(std::make_unique<Child>(next.command, From(next.folder)));
    }
    for (const auto& target : targets) {
      ExpectAsNative(target->Wait());
      pids->push_back(target->pid());
    }
    for (size_t i = first; i < first + count; ++i) {
      fs::remove_all(Folder(i));
      fs::remove_all(Merged(i));
    }
    // The service's output would fill the pipe.
    (void)watcher_->PollEvents("window");
  }
  static size_t Copies() {
    const char* wanted = getenv("ROCATTACH_TEST_COPIES");
    return wanted != nullptr ? strtoul(wanted, nullptr, 10) : 2 * kAtOnce;
  }
  // `library`: a part of the path that is recorded for each process.
  void Rounds(const LaunchFunction& launch, const std::string& library) {
    std::vector<pid_t> pids;
    for (size_t first = 1; first <= Copies() && !HasFailure(); first += kAtOnce) {
      Round(first, std::min(kAtOnce, Copies() + 1 - first), launch, &pids);
    }
    const uint64_t missed = ExpectAllSeen(pids, library);
    printf("copies=%zu missed=%llu\n", pids.size(),
           static_cast<unsigned long long>(missed));
    EXPECT_EQ(missed, 0u) << "of " << pids.size();
  }
};

TEST_F(ManyCopiesTest, CopiesThatStayAreAllSeen) {
  Rounds(InFolder("true"), directory_.path());
}

TEST_F(ManyCopiesTest, CopiesThatAreDeletedAtOnceAreAllSeen) {
  // The path that is recorded depends on the moment at which the file is read.
  Rounds(InFolder("rm -f $0"), "/");
}

TEST_F(ManyCopiesTest, CopiesThatAreRenamedAtOnceAreAllSeen) {
  Rounds(InFolder("mv $0 $0.other"), "/");
}

TEST_F(ManyCopiesTest, CopiesOfMountNamespacesAreAllSeen) {
  Rounds(
      [this](size_t number) -> Launch {
        fs::create_directories(Folder(number));
        return {InOwnNamespace(number), Folder(number)};
      },
      kName);
}

TEST_F(ManyCopiesTest, CopiesOnOverlaysAreAllSeen) {
  const Finished probe =
      Child(Unshared({},
                     "mount -t tmpfs none /mnt && mkdir /mnt/l /mnt/u /mnt/w /mnt/m && "
                     "mount -t overlay overlay -o "
                     "lowerdir=/mnt/l,upperdir=/mnt/u,workdir=/mnt/w /mnt/m && "
                     "exec \"$@\"",
                     {"true"}))
          .Wait();
  if (!probe.exited_with(0)) GTEST_SKIP() << probe.errors;
  Rounds(
      [this](size_t number) -> Launch {
        MakeCopy(number);
        // Every other file is copied up.
        return {
            OnOverlay(number,
                      number % 2 == 0 ? "true" : "touch $merged/libhsa-runtime64.so.1"),
            Merged(number)};
      },
      "merged");
}

// The service is killed or stopped while programs load copies: these may be held in the
// dynamic loader at that moment.
class ServiceThatEndsTest : public DiscoveryTest {
 protected:
  static constexpr size_t kPrograms = 8;

  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    RunNative();
  }
  // Starts a program with a copy of the runtime that is new to the service.
  std::unique_ptr<Child> StartWithNewCopy() {
    MakeCopy(++copies_);
    return std::make_unique<Child>(Target(), From(Folder(copies_)));
  }
  void RemoveCopies() {
    while (removed_ < copies_) fs::remove_all(Folder(++removed_));
  }

  size_t copies_ = 0, removed_ = 0;
};

TEST_F(ServiceThatEndsTest, HarmsNoProgramAtAnyInstant) {
  KillRounds rounds;
  rounds.service = Options();
  rounds.rounds = 7;
  rounds.stopped_rounds = 2;
  rounds.batch_us = 150'000;
  rounds.targets.assign(kPrograms, Target());
  rounds.start = [this](size_t i) {
    if (i == 0) RemoveCopies();
    return StartWithNewCopy();
  };
  rounds.check = [this](const Finished& end) { ExpectAsNative(end); };
  ExpectNobodyIsHarmed(rounds);
}

}  // namespace
}  // namespace rocattach::testing_support
