// Copies of the HSA runtime that appear while the service runs: they have their probe
// before their hsa_init can be called, wherever they are, and whatever becomes of their
// files. Each process is compared with what it does without us.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <memory>
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
  // The target with a copy that nobody else can see.
  std::vector<std::string> InOwnNamespace(size_t number) const {
    return Unshared({},
                    absl::StrCat("mount -t tmpfs none ", Folder(number), " && cp -L ",
                                 kRuntime, " ", Copy(number), " && exec \"$@\""),
                    Target());
  }
  // The target on an overlay over the copy's folder, after a `change` in it.
  std::vector<std::string> OnOverlay(size_t number, const std::string& change) const {
    fs::create_directories(Merged(number));
    // An overlay cannot have its upper layer on every file system.
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
  // Stops the service. Each of these processes was held at its window and recorded
  // from its first dispatch on; at most as many are not as are counted. Returns how
  // many are counted.
  uint64_t ExpectAllSeen(const std::vector<pid_t>& pids, const std::string& library) {
    const Finished service = watcher_->Stop();
    EXPECT_TRUE(service.exited_with(0)) << service.errors;
    const uint64_t missed = Missed(watcher_.get());
    const Recording recording = ReadRecording(watcher_->recording());
    EXPECT_TRUE(recording.damage.empty());
    uint64_t seen = 0;
    for (const RecordedProcess& process : recording.processes) {
      const auto pid = static_cast<pid_t>(process.process.pid());
      if (std::find(pids.begin(), pids.end(), pid) == pids.end()) continue;
      if (process.verdict.mode() != v1::WINDOW_MODE_HELD) continue;
      ++seen;
      EXPECT_EQ(process.dispatches.size(), kDispatches) << pid;
      EXPECT_THAT(process.process.hsa_library(), HasSubstr(library));
    }
    EXPECT_GE(seen + missed, pids.size()) << "a miss that is not counted";
    EXPECT_LE(seen, pids.size());
    return pids.size() - seen;
  }

  ExecutableDirectory directory_;
  Finished native_;
  std::unique_ptr<WatcherProcess> watcher_;
};

TEST_F(DiscoveryTest, ACopyInAPlainFolderIsProbedBeforeItIsStarted) {
  MakeCopy(1);
  std::vector<pid_t> pids;
  // The second one finds the probe.
  for (int i = 0; i < 2; ++i) {
    Child target(Target(), From(Folder(1)));
    ExpectAsNative(target.Wait());
    pids.push_back(target.pid());
  }
  EXPECT_EQ(ExpectAllSeen(pids, Folder(1)), 0u);
}

TEST_F(DiscoveryTest, ACopyThatOnlyAMountNamespaceHasIsProbed) {
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

// Containers come and go, and the files of those that are gone are not deleted, but
// unreachable: their probes make room for others, also while one of them runs on whose
// file has the same number on a file system of its own.
TEST_F(FewCopiesTest, CopiesThatNobodyHasAnyMoreMakeRoom) {
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

// As a container has it: the file is in a layer below, or has been copied up.
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

// Starts kAtOnce processes at a time, each with a copy of its own, of which nothing
// stays. ROCATTACH_TEST_COPIES=10000: so many in all.
class ManyCopiesTest : public DiscoveryTest {
 protected:
  struct Launch {
    std::vector<std::string> command;
    std::string folder;  // where the loader is to look
  };
  // Makes the copy with this number, and says how it is used.
  using LaunchFunction = std::function<Launch(size_t number)>;

  // Changes each file at some moment while it is loaded.
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
    // Its output would fill the pipe.
    (void)watcher_->PollEvents("window");
  }
  static size_t Copies() {
    const char* wanted = getenv("ROCATTACH_TEST_COPIES");
    return wanted != nullptr ? strtoul(wanted, nullptr, 10) : 2 * kAtOnce;
  }
  // `library`: a part of the path that is recorded for each of them.
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
  // What is left of the path when the file is read depends on the moment.
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

// The service is killed or stopped while programs load copies: they may be held in the
// dynamic loader by then.
class ServiceThatEndsTest : public DiscoveryTest {
 protected:
  static constexpr size_t kPrograms = 8;

  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    RunNative();
  }
  // A program with a copy of the runtime that nobody has seen before.
  std::unique_ptr<Child> StartWithNewCopy() {
    MakeCopy(++copies_);
    return std::make_unique<Child>(Target(), From(Folder(copies_)));
  }
  void RemoveCopies() {
    while (removed_ < copies_) fs::remove_all(Folder(++removed_));
  }

  size_t copies_ = 0, removed_ = 0;
};

TEST_F(ServiceThatEndsTest, AnyInstantWillDo) {
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
