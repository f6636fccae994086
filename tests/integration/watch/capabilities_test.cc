// The service with the capabilities of its systemd unit, and without each of them: the
// table of privileges in docs/operations.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {
namespace {

namespace fs = std::filesystem;
using testing::Contains;

constexpr uid_t kOtherUid = 65534;

// The unit's capabilities, as names such as "sys_admin".
std::vector<std::string> CapabilitiesOfTheUnit() {
  std::ifstream unit(ROCATTACH_TEST_UNIT);
  std::vector<std::string> names;
  for (std::string line; std::getline(unit, line);) {
    absl::string_view list = line;
    if (!absl::ConsumePrefix(&list, "CapabilityBoundingSet=")) continue;
    for (absl::string_view name : absl::StrSplit(list, ' ', absl::SkipEmpty())) {
      absl::ConsumePrefix(&name, "CAP_");
      names.push_back(absl::AsciiStrToLower(name));
    }
  }
  return names;
}

// Runs a program with these capabilities and no others.
std::vector<std::string> With(const std::vector<std::string>& capabilities) {
  return {"setpriv", "--no-new-privs", "--inh-caps=-all",
          absl::StrCat("--bounding-set=-all,+", absl::StrJoin(capabilities, ",+"))};
}

class CapabilitiesTest : public testing::Test {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    all_ = CapabilitiesOfTheUnit();
    ASSERT_THAT(all_, Contains("sys_admin"));
    native_ = RunTarget({"hsa_dispatch", "-n", "20"});
    ASSERT_TRUE(native_.exited_with(0)) << native_.errors;
  }

  std::vector<std::string> Without(const std::string& capability) const {
    std::vector<std::string> left = all_;
    EXPECT_EQ(std::erase(left, capability), 1u) << capability << " is not in the unit";
    return left;
  }
  // Runs a process, expects that it does the same as without a service, and returns its
  // verdict; "" if it had no window.
  std::string VerdictOf(WatcherProcess* watcher,
                        const std::vector<std::string>& command,
                        Child::Options options = {}) {
    options.dies_with_us = true;
    Child target(command, options);
    const Finished finished = target.Wait();
    EXPECT_TRUE(finished.exited_with(0)) << finished.errors;
    EXPECT_EQ(finished.errors, native_.errors);
    EXPECT_EQ(Reported(finished.output, "dispatches"),
              Reported(native_.output, "dispatches"));
    EXPECT_TRUE(watcher->Stop().exited_with(0));
    for (const auto& event : watcher->Events("window")) {
      if (event.value("pid", 0) == target.pid()) return event["verdict"];
    }
    return "";
  }
  static std::vector<std::string> Target() {
    return OnSimgpu({"hsa_dispatch", "-n", "20"});
  }

  std::vector<std::string> all_;
  Finished native_;
};

TEST_F(CapabilitiesTest, ThoseOfTheUnitAreEnough) {
  WatcherProcess watcher({"--auto", "-f", "csv"}, With(all_));
  ASSERT_TRUE(watcher.ready());
  EXPECT_EQ(watcher.Events("ready").at(0)["realtime"], true);
  EXPECT_EQ(VerdictOf(&watcher, Target()), "attached");
  // The conversion runs without any of them.
  bool converted = false;
  for (const auto& entry : fs::recursive_directory_iterator(watcher.directory())) {
    converted |= absl::EndsWith(entry.path().string(), ".csv");
  }
  EXPECT_TRUE(converted);
}

TEST_F(CapabilitiesTest, SomeAreNeededOnlyWithoutSysAdmin) {
  for (const char* capability : {"bpf", "perfmon", "checkpoint_restore"}) {
    WatcherProcess watcher({"--auto"}, With(Without(capability)));
    ASSERT_TRUE(watcher.ready()) << capability;
    EXPECT_EQ(VerdictOf(&watcher, Target()), "attached") << capability;
  }
}

TEST_F(CapabilitiesTest, WithoutThoseThatProtectSharedMemoryProcessesAreAttached) {
  for (const char* capability : {"linux_immutable", "fowner"}) {
    WatcherProcess watcher({"--auto"}, With(Without(capability)));
    ASSERT_TRUE(watcher.ready()) << capability;
    EXPECT_EQ(VerdictOf(&watcher, Target(), {.uid = kOtherUid}), "attached")
        << capability;
  }
}

TEST_F(CapabilitiesTest, WithoutSysAdminOrSysPtraceItDoesNotStart) {
  for (const char* capability : {"sys_admin", "sys_ptrace"}) {
    std::vector<std::string> command = With(Without(capability));
    ExecutableDirectory directory;
    command.insert(command.end(),
                   {WatcherPath(), "--auto", "--hold-timeout-msec", "10000",
                    "--collector", CollectorPath(), "-d", directory.path()});
    const Finished finished = Child(command).Wait();
    EXPECT_TRUE(finished.exited_with(3)) << finished.status << finished.errors;
    EXPECT_TRUE(absl::StrContains(
        finished.errors,
        absl::StrCat("missing CAP_", absl::AsciiStrToUpper(capability))))
        << finished.errors;
  }
}

// The service sees processes, and reports that it did not attach to them.
TEST_F(CapabilitiesTest, WithoutSysPtraceWindowsAreSeen) {
  WatcherProcess watcher({}, With(Without("sys_ptrace")));
  ASSERT_TRUE(watcher.ready());
  EXPECT_EQ(VerdictOf(&watcher, Target()), "passed");
}

TEST_F(CapabilitiesTest, WithoutSysNiceHoldsHaveNoPriority) {
  WatcherProcess watcher({"--auto"}, With(Without("sys_nice")));
  ASSERT_TRUE(watcher.ready());
  EXPECT_EQ(watcher.Events("ready").at(0)["realtime"], false);
  EXPECT_EQ(VerdictOf(&watcher, Target()), "attached");
}

// Processes of another user, also with a runtime copy that only that user can reach.
TEST_F(CapabilitiesTest, WithoutDacOverrideOtherUsersProcessesAreNotAttached) {
  constexpr char kRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";
  ExecutableDirectory directory;
  ASSERT_EQ(chmod(directory.path().c_str(), 0755), 0);
  const std::string folder = directory.path() + "/private";
  fs::create_directory(folder);
  fs::copy_file(kRuntime, folder + "/libhsa-runtime64.so.1");
  ASSERT_EQ(chown(folder.c_str(), kOtherUid, kOtherUid), 0);
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  const Child::Options own = {.uid = kOtherUid};
  const Child::Options own_copy = {.environment = {"LD_LIBRARY_PATH=" + folder},
                                   .uid = kOtherUid};
  for (const Child::Options& options : {own, own_copy}) {
    WatcherProcess watcher({"--auto"}, With(all_));
    ASSERT_TRUE(watcher.ready());
    EXPECT_EQ(VerdictOf(&watcher, Target(), options), "attached");
  }
  WatcherProcess watcher({"--auto"}, With(Without("dac_override")));
  ASSERT_TRUE(watcher.ready());
  EXPECT_EQ(VerdictOf(&watcher, Target(), own), "refused");
}

}  // namespace
}  // namespace rocattach::testing_support
