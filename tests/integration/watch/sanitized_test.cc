// Programs that were built with a sanitizer: it reports nothing about the collector,
// and they are not entered late if the sanitizer's allocator would not tolerate that.
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

#include "tests/integration/watch/attacher.h"
#include "tests/integration/watch/harness.h"
#include "tests/integration/watch/watched_run.h"

namespace rocattach::testing_support {
namespace {

using testing::HasSubstr;

constexpr int kThreads = 4;

class SanitizedTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    SKIP_WITHOUT_PRIVILEGES();
    if (access(TargetPath(Program()).c_str(), X_OK) != 0) {
      if (getenv("CI") != nullptr) FAIL() << Program() << " was not built";
      GTEST_SKIP() << "the compiler has no such sanitizer";
    }
  }
  static std::string Program() { return std::string("hsa_busy_") + GetParam(); }
  static std::vector<std::string> Command(const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        Program(), "-t", std::to_string(kThreads), "-q", "2", "-n", "200"};
    words.insert(words.end(), more.begin(), more.end());
    return OnSimgpu(words);
  }
};

TEST_P(SanitizedTest, NothingIsReported) {
  // The simulated GPU copies in a thread of the process, which ThreadSanitizer would
  // report as a race of the program, even without the collector.
  const char* const copies = GetParam() == std::string("thread") ? "0" : "20";
  Finished watched;
  const RecordedProcess process =
      RunWatched(Command({"--copies", copies}), {"--auto"}, &watched);
  EXPECT_EQ(static_cast<int64_t>(process.dispatches.size()),
            Reported(watched.output, "dispatches"));
  EXPECT_EQ(static_cast<int64_t>(process.copies.size()),
            Reported(watched.output, "copies"));
}

// Late attaches to a program that dispatches until End().
class LateSanitizedTest : public SanitizedTest {
 protected:
  std::string Path(const std::string& name) const {
    return directory_.path() + "/" + name;
  }
  std::unique_ptr<Child> Start() const {
    std::filesystem::remove(Path("end"));
    auto target =
        std::make_unique<Child>(Command({"--rate", "1000", "--until", Path("end")}),
                                Child::Options{.dies_with_us = true});
    const std::string tasks = "/proc/" + std::to_string(target->pid()) + "/task";
    EXPECT_TRUE(Eventually([&] {
      std::error_code error;
      return std::distance(std::filesystem::directory_iterator(tasks, error), {}) >
             kThreads;
    }));
    return target;
  }
  Finished End(Child* target) const {
    std::ofstream(Path("end")).put('\n');
    return target->Wait();
  }
  static void ExpectAsNative(const Finished& target, const Finished& native) {
    EXPECT_EQ(target.status, native.status) << target.output;
    EXPECT_EQ(target.errors, native.errors);
    EXPECT_THAT(target.output, HasSubstr("result=ok"));
  }

  ExecutableDirectory directory_;
};

TEST_P(LateSanitizedTest, IsPassedAndRunsAsNatively) {
  constexpr int kTimes = 3;
  const Finished native = End(Start().get());
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  for (int i = 0; i < kTimes; ++i) {
    auto target = Start();
    Attacher attach(Path("late.rwa"), {target->pid()});
    const Finished end = attach.child().Wait();
    EXPECT_TRUE(end.exited_with(1)) << end.output << end.errors;
    const auto refused = attach.Events("not_attached");
    ASSERT_EQ(refused.size(), 1u) << end.output;
    EXPECT_EQ(refused[0].value("reason", ""), "sanitizer");
    EXPECT_FALSE(refused[0].value("target_modified", true));
    ExpectAsNative(End(target.get()), native);
  }
}

TEST_P(LateSanitizedTest, IsPassedByAServiceThatAttachesToAllThatRuns) {
  const Finished native = End(Start().get());
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  auto target = Start();
  WatcherProcess watcher({"--auto", "--attach-running"});
  ASSERT_TRUE(watcher.ready());
  EXPECT_TRUE(Eventually([&] { return watcher.PollEvents("window") >= 1; }));
  ExpectAsNative(End(target.get()), native);
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const auto windows = watcher.Events("window");
  ASSERT_EQ(windows.size(), 1u);
  EXPECT_EQ(windows[0].value("pid", 0), target->pid());
  EXPECT_EQ(windows[0].value("verdict", ""), "passed") << windows[0];
  EXPECT_EQ(windows[0].value("reason", ""), "ATTACH_REASON_SANITIZER") << windows[0];
}

// UndefinedBehaviorSanitizer has no shadow memory and no allocator of its own.
class LateUndefinedTest : public LateSanitizedTest {};

TEST_P(LateUndefinedTest, IsAttachedTo) {
  const Finished native = End(Start().get());
  ASSERT_TRUE(native.exited_with(0)) << native.output << native.errors;
  auto target = Start();
  Attacher attach(Path("late.rwa"), {target->pid()});
  EXPECT_TRUE(attach.Attached());
  ExpectAsNative(End(target.get()), native);
  EXPECT_TRUE(attach.child().Wait().exited_with(0));
  EXPECT_GT(OnlyAttached(Path("late.rwa")).dispatches.size(), 0u);
}

std::string NameOf(const testing::TestParamInfo<const char*>& test) {
  return test.param;
}

INSTANTIATE_TEST_SUITE_P(Sanitizers, SanitizedTest,
                         testing::Values("address", "thread", "undefined"), NameOf);
INSTANTIATE_TEST_SUITE_P(Shadows, LateSanitizedTest,
                         testing::Values("address", "thread"), NameOf);
INSTANTIATE_TEST_SUITE_P(NoShadow, LateUndefinedTest, testing::Values("undefined"),
                         NameOf);

}  // namespace
}  // namespace rocattach::testing_support
