// Programs under Valgrind and qemu-user, which read a probe's breakpoint like any other
// byte: they run as they do without the service, and are passed, with that reason.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "injector/process/maps.h"
#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"
#include "userspace/watch/discovery/library_scanner.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

constexpr char kRuntime[] = "/usr/lib/x86_64-linux-gnu/libhsa-runtime64.so.1";
constexpr size_t kDispatches = 10;

struct Translator {
  const char* name;
  std::vector<std::string> command;
};

bool IsInstalled(const std::string& program) {
  const char* path = getenv("PATH");
  for (const std::string& folder :
       std::vector<std::string>(absl::StrSplit(path == nullptr ? "" : path, ':'))) {
    if (access(absl::StrCat(folder, "/", program).c_str(), X_OK) == 0) return true;
  }
  return false;
}

class TranslatorsTest : public testing::TestWithParam<Translator> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    const std::string& program = GetParam().command[0];
    if (!IsInstalled(program)) {
      if (getenv("CI") != nullptr) FAIL() << program << " is not installed";
      GTEST_SKIP() << program << " is not installed; run scripts/setup";
    }
    std::filesystem::copy_file(kRuntime, Copy());
    // A run without a service.
    native_ = Start(/*waits=*/false)->Wait();
    ASSERT_TRUE(native_.exited_with(0)) << native_.output << native_.errors;
  }

  // The path of a copy of the runtime that no other process uses.
  std::string Copy() const { return directory_.path() + "/libhsa-runtime64.so.1"; }
  std::string Gate() const { return directory_.path() + "/gate"; }
  // The target under the translator; `waits`: it waits for Open() before hsa_init.
  std::unique_ptr<Child> Start(bool waits) {
    std::vector<std::string> words = GetParam().command;
    words.push_back(TargetPath("hsa_dispatch"));
    words.insert(words.end(), {"-n", absl::StrCat(kDispatches)});
    if (waits) words.insert(words.end(), {"--wait-file", Gate()});
    auto child = std::make_unique<Child>(OnSimgpu(words), Environment());
    if (waits) {
      EXPECT_TRUE(Eventually([&child] { return HasRuntime(child->pid()); }));
    }
    return child;
  }
  std::unique_ptr<Child> StartNative() {
    return std::make_unique<Child>(
        OnSimgpu({"hsa_dispatch", "-n", absl::StrCat(kDispatches)}), Environment());
  }
  Child::Options Environment() const {
    return {.environment = {"LD_LIBRARY_PATH=" + directory_.path()},
            .dies_with_us = true};
  }
  void Open() const { std::ofstream(Gate()).put('\n'); }
  static bool HasRuntime(pid_t pid) {
    auto maps = Maps::Read(pid);
    if (!maps.ok()) return false;
    for (const Mapping& mapping : maps->mappings()) {
      if (mapping.writable && LooksLikeHsaRuntime(mapping.path)) return true;
    }
    return false;
  }
  void ExpectAsNative(const Finished& target) const {
    EXPECT_EQ(target.status, native_.status) << target.output << target.errors;
    EXPECT_EQ(Printed(target.output, "increment"),
              Printed(native_.output, "increment"));
    EXPECT_THAT(target.output, HasSubstr("result=ok"));
  }
  static void ExpectPassed(WatcherProcess* watcher, pid_t pid) {
    EXPECT_TRUE(watcher->Stop().exited_with(0));
    size_t verdicts = 0;
    for (const nlohmann::json& window : watcher->Events("window")) {
      if (window.value("pid", 0) != pid) continue;
      ++verdicts;
      EXPECT_EQ(window.value("verdict", ""), "passed") << window;
      EXPECT_EQ(window.value("reason", ""), "ATTACH_REASON_TRANSLATED") << window;
      EXPECT_THAT(window.value("detail", ""), HasSubstr("translators do"));
    }
    EXPECT_EQ(verdicts, 1u);
    const auto summaries = watcher->Events("summary");
    ASSERT_EQ(summaries.size(), 1u);
    for (const auto& [reason, count] : summaries[0]["missed_windows"].items()) {
      EXPECT_EQ(count.get<uint64_t>(), 0u) << reason;
    }
  }

  void ExpectPassedWith(const char* hold) {
    WatcherProcess watcher({"--auto", "--library", Copy(), "--hold", hold});
    ASSERT_TRUE(watcher.ready());
    for (const nlohmann::json& ready : watcher.Events("ready")) {
      EXPECT_EQ(ready.value("danger", ""), "");
    }
    auto target = Start(/*waits=*/false);
    ExpectAsNative(target->Wait());
    ExpectPassed(&watcher, target->pid());
  }

  ExecutableDirectory directory_;
  Finished native_;
};

TEST_P(TranslatorsTest, AProgramWithAKnownCopyIsPassedAndRunsAsNatively) {
  ExpectPassedWith("yielding");
}

// Further tests, once for each translator.
class EachTranslatorTest : public TranslatorsTest {};

TEST_P(EachTranslatorTest, IsPassedInOtherHoldModes) {
  ExpectPassedWith("signal");
  ExpectPassedWith("none");
}

// The service finds the copy in the process itself, or sees it there before it has a
// probe. A native process with the same copy is recorded.
TEST_P(EachTranslatorTest, AProgramWithANewCopyIsPassedAndOthersAreRecorded) {
  WatcherProcess watcher({"--auto"});
  ASSERT_TRUE(watcher.ready());
  ExpectAsNative(Start(/*waits=*/false)->Wait());
  auto native = StartNative();
  EXPECT_TRUE(native->Wait().exited_with(0));
  auto target = Start(/*waits=*/false);
  ExpectAsNative(target->Wait());
  ExpectPassed(&watcher, target->pid());
  const Recording recording = ReadRecording(watcher.recording());
  EXPECT_EQ(recording.Process(native->pid()).dispatches.size(), kDispatches);
}

// The kernel writes the breakpoint into the memory of all running processes.
TEST_P(EachTranslatorTest, ARunningProgramRunsOnWhenServicesStart) {
  auto target = Start(/*waits=*/true);
  WatcherProcess first({"--auto", "--library", Copy()});
  ASSERT_TRUE(first.ready());
  WatcherProcess second({"--auto", "--library", Copy()});
  ASSERT_TRUE(second.ready());
  Open();
  ExpectAsNative(target->Wait());
  ExpectPassed(&first, target->pid());
  ExpectPassed(&second, target->pid());
}

TEST_P(EachTranslatorTest, ALateAttachIsRefusedWithTheReason) {
  auto target = Start(/*waits=*/true);
  Attacher attach(directory_.path() + "/late.rwa", {target->pid()});
  const Finished end = attach.child().Wait();
  EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
  const auto refused = attach.Events("not_attached");
  ASSERT_EQ(refused.size(), 1u) << end.output;
  EXPECT_THAT(refused[0].value("detail", ""), HasSubstr("translators do"));
  Open();
  ExpectAsNative(target->Wait());
}

std::string NameOf(const testing::TestParamInfo<Translator>& test) {
  return test.param.name;
}

INSTANTIATE_TEST_SUITE_P(All, TranslatorsTest,
                         testing::Values(Translator{"Memcheck", {"valgrind", "-q"}},
                                         Translator{"ValgrindChild",
                                                    {"valgrind", "-q", "--tool=none",
                                                     "--trace-children=yes", "sh", "-c",
                                                     "exec \"$@\"", "sh"}}),
                         NameOf);
INSTANTIATE_TEST_SUITE_P(Each, EachTranslatorTest,
                         testing::Values(Translator{"Valgrind",
                                                    {"valgrind", "-q", "--tool=none"}},
                                         Translator{"Qemu", {"qemu-x86_64"}}),
                         NameOf);

}  // namespace
}  // namespace rocattach::testing_support
