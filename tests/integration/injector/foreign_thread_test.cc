// Threads in which no library can be loaded: those that the C library did not create,
// and those whose system calls come back as signals. They run on undisturbed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdio.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "injector/attach.h"
#include "tests/integration/injector/target_process.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

constexpr int kTimes = 3;
constexpr int kTries = 10'000;

std::string NameOf(const testing::TestParamInfo<const char*>& test) {
  return absl::StrReplaceAll(test.param, {{"-", "_"}});
}

class ForeignThreadTest : public testing::Test {
 protected:
  static bool Start(TargetProcess* target, const std::string& mode) {
    TargetProcess::Options options;
    options.program = ForeignThreadsPath();
    options.mode = mode;
    return target->Start(options);
  }
  // Attaches once the intended thread is in its call; `another`: not the foreign one.
  static AttachOutcome AttachBlocked(const TargetProcess& target,
                                     bool another = false) {
    AttachRequest request = target.Request();
    request.point.blocked = true;
    AttachOutcome outcome;
    for (int tries = 0; tries < kTries; ++tries) {
      outcome = AttachBlockedThread(request);
      const bool is_early = outcome.reason == AttachReason::kNoSafePoint ||
                            outcome.reason == AttachReason::kNotAtWindow;
      if (!is_early && !(another && outcome.reason == AttachReason::kForeignThread)) {
        break;
      }
      usleep(1000);
    }
    return outcome;
  }
  static void ExpectUntouched(const AttachOutcome& outcome, const char* reason,
                              TargetProcess* target) {
    EXPECT_EQ(AttachReasonName(outcome.reason), reason) << outcome.detail;
    EXPECT_FALSE(outcome.target_modified);
    target->Finish();
    EXPECT_TRUE(target->Intact()) << target->output() << " status " << target->status();
    EXPECT_EQ(target->Report(), "");
  }
  static void RunAlone(const std::string& mode) {
    TargetProcess target;
    ASSERT_TRUE(Start(&target, mode));
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  }
};

class BlockedForeignTest : public ForeignThreadTest,
                           public testing::WithParamInterface<const char*> {};

TEST_P(BlockedForeignTest, NobodyAttaches) {
  RunAlone(GetParam());
}

TEST_P(BlockedForeignTest, IsNotEntered) {
  for (int i = 0; i < kTimes; ++i) {
    TargetProcess target;
    ASSERT_TRUE(Start(&target, GetParam()));
    ExpectUntouched(AttachBlocked(target), "foreign-thread", &target);
  }
}

INSTANTIATE_TEST_SUITE_P(Calls, BlockedForeignTest,
                         testing::Values("futex", "read", "borrowed", "under",
                                         "futex-registered", "under-registered"),
                         NameOf);

// A thread of the C library is used instead if there is one.
TEST_F(ForeignThreadTest, AnotherThreadIsEnteredInstead) {
  RunAlone("beside");
  for (int i = 0; i < kTimes; ++i) {
    TargetProcess target;
    ASSERT_TRUE(Start(&target, "beside"));
    const AttachOutcome outcome = AttachBlocked(target, /*another=*/true);
    ASSERT_TRUE(outcome.ok()) << AttachReasonName(outcome.reason) << ": "
                              << outcome.detail;
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  }
}

class ForeignWindowTest : public BlockedForeignTest {};

TEST_P(ForeignWindowTest, NobodyAttaches) {
  RunAlone(GetParam());
}

TEST_P(ForeignWindowTest, IsNotEntered) {
  for (int i = 0; i < kTimes; ++i) {
    TargetProcess target;
    ASSERT_TRUE(Start(&target, GetParam()));
    ASSERT_TRUE(target.WaitAtWindow());
    ExpectUntouched(target.Attach(), "foreign-thread", &target);
  }
}

INSTANTIATE_TEST_SUITE_P(Windows, ForeignWindowTest,
                         testing::Values("window", "window-borrowed", "window-moved",
                                         "window-registered"),
                         NameOf);

class DispatchTest : public ForeignThreadTest,
                     public testing::WithParamInterface<const char*> {
 protected:
  // The kernel has had Syscall User Dispatch since 5.11, and reports it since 6.4.
  void SetUp() override {
    utsname system = {};
    int major = 0, minor = 0;
    ASSERT_EQ(uname(&system), 0);
    ASSERT_EQ(sscanf(system.release, "%d.%d", &major, &minor), 2);
    if (major < 6 || (major == 6 && minor < 4)) GTEST_SKIP() << "needs Linux 6.4";
  }
};

TEST_P(DispatchTest, NobodyAttaches) {
  RunAlone(GetParam());
}

TEST_P(DispatchTest, IsNotEntered) {
  for (int i = 0; i < kTimes; ++i) {
    TargetProcess target;
    ASSERT_TRUE(Start(&target, GetParam()));
    AttachOutcome outcome;
    if (std::string(GetParam()) == "dispatch-read") {
      outcome = AttachBlocked(target);
    } else {
      ASSERT_TRUE(target.WaitAtWindow());
      outcome = target.Attach();
    }
    ExpectUntouched(outcome, "system-call-dispatch", &target);
  }
}

INSTANTIATE_TEST_SUITE_P(Selectors, DispatchTest,
                         testing::Values("dispatch", "dispatch-off", "dispatch-read"),
                         NameOf);

}  // namespace
}  // namespace rocattach
