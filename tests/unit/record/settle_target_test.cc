#include "userspace/record/settle_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/unit/record/target_fixture.h"
#include "userspace/base/clock.h"
#include "userspace/base/process.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

constexpr uint64_t kTimeoutNs = 300'000'000;

class SettleTargetTest : public TargetTest {
 protected:
  // A process with a collector that has reported in.
  void ReportIn(uint32_t number = 0) {
    target_ = NewTarget(Attached(number));
    Report(fake_, target_.get());
  }
  static void Arm(FakeCollector* fake, uint64_t armed_ns) {
    fake->control()->armed_ns = armed_ns;
    fake->control()->state = ROCATTACH_STATE_ARMED;
  }
  static void Refuse(FakeCollector* fake) {
    strcpy(fake->control()->text, "table of 12 bytes");
    fake->control()->state = ROCATTACH_STATE_REFUSED;
  }
  static void PutInPlace(FakeCollector* fake) {
    fake->control()->entry = ROCATTACH_ENTRY_PATH_LIVE_TABLE;
  }
  static v1::ProcessEnd Killed() {
    v1::ProcessEnd end;
    end.set_how(v1::ProcessEnd::SIGNALLED);
    end.set_signal(SIGSEGV);
    return end;
  }

  FakeCollector fake_;
  std::unique_ptr<Target> target_;
};

TEST_F(SettleTargetTest, AVerdictIsSettledOnce) {
  Window window = Attached();
  window.verdict = Verdict::kPassed;
  target_ = NewTarget(std::move(window));
  EXPECT_FALSE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_FALSE(SettleBeforeReopen(target_.get()));
  EXPECT_FALSE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kPassed);
}

TEST_F(SettleTargetTest, AStubThatDidNotLoadTheCollectorIsNoticedEarly) {
  constexpr uint64_t kLater = kWindowNs + 2'000'000'000;
  int asked = 0;
  bool has_collector = false;
  auto ask = [&](pid_t) {
    ++asked;
    return has_collector;
  };
  target_ = NewTarget(Attached());
  EXPECT_FALSE(SettleIfNotLoaded(target_.get(), kWindowNs + 1'000'000, ask));
  EXPECT_EQ(asked, 0) << "the stub may still be at it";
  EXPECT_TRUE(SettleIfNotLoaded(target_.get(), kLater, ask));
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_LOADER_BUSY);
  EXPECT_TRUE(MayBeEnteredLater(target_->window()));

  // Its time begins when the thread is released, however late that is.
  Window late = Attached();
  late.outcome.released_ns = kWindowNs + 1'500'000'000;
  asked = 0;
  target_ = NewTarget(std::move(late));
  EXPECT_FALSE(SettleIfNotLoaded(target_.get(), kLater, ask));
  EXPECT_EQ(asked, 0) << "the stub may still be at it";
  EXPECT_TRUE(SettleIfNotLoaded(target_.get(), kLater + 1'000'000'000, ask));

  has_collector = true;
  asked = 0;
  target_ = NewTarget(Attached());
  EXPECT_FALSE(SettleIfNotLoaded(target_.get(), kLater, ask));
  EXPECT_FALSE(SettleIfNotLoaded(target_.get(), kLater, ask));
  EXPECT_EQ(asked, 1) << "reading a process is not free";
  EXPECT_EQ(target_->verdict(), Verdict::kOpen);
}

TEST_F(SettleTargetTest, TheErrorOfAStubIsQuotedAtOnce) {
  auto never = [](pid_t) { return false; };
  for (bool at_end : {false, true}) {
    const int report = memfd_create("report", MFD_CLOEXEC);
    Window window = Attached(at_end ? 2 : 1);
    window.outcome.load_report = std::make_shared<const UniqueFd>(report);
    target_ = NewTarget(std::move(window));
    EXPECT_FALSE(SettleIfNotLoaded(target_.get(), kWindowNs + 1, never));
    constexpr absl::string_view kError = "version `GLIBC_2.17' not found\x01";
    ASSERT_EQ(write(report, kError.data(), kError.size()),
              static_cast<ssize_t>(kError.size()));
    EXPECT_TRUE(at_end ? SettleAtEnd(target_.get(), Killed())
                       : SettleIfNotLoaded(target_.get(), kWindowNs + 2, never));
    EXPECT_EQ(target_->verdict(), Verdict::kRefused);
    EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_COLLECTOR_UNREADABLE);
    EXPECT_THAT(target_->window().detail(), HasSubstr("`GLIBC_2.17' not found"));
    EXPECT_EQ(target_->window().detail().find('\x01'), std::string::npos);
    EXPECT_FALSE(MayBeEnteredLater(target_->window()));
    EXPECT_EQ(target_->opened().outcome.load_report, nullptr) << "it is closed";
  }
}

TEST_F(SettleTargetTest, AnIdleProcessIsAttachedBeforeItsNextCall) {
  Window window = Attached();
  window.event.cookie = ROCATTACH_COOKIE_LATE | 1;
  target_ = NewTarget(std::move(window));
  fake_.control()->entry = ROCATTACH_ENTRY_PATH_LATE;
  fake_.control()->state = ROCATTACH_STATE_LOADED;
  Report(fake_, target_.get());
  EXPECT_FALSE(SettleIfOverdue(target_.get(), kWindowNs + 1'000'000, kTimeoutNs));
  EXPECT_TRUE(SettleIfOverdue(target_.get(), kWindowNs + 1'000'000'000, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kAttached);
  EXPECT_THAT(target_->window().detail(), HasSubstr("next call of the HSA runtime"));
}

TEST(MayBeEnteredLater, OnlyAfterAFailureThatIsOverSoon) {
  v1::WindowEvent window;
  window.set_state(v1::WINDOW_STATE_MISSED);
  window.set_reason(v1::ATTACH_REASON_STOP_TIMEOUT);
  EXPECT_TRUE(MayBeEnteredLater(window));
  window.set_reason(v1::ATTACH_REASON_SECURE_EXEC);
  EXPECT_FALSE(MayBeEnteredLater(window));
  window.set_reason(v1::ATTACH_REASON_UNSAFE_CONTEXT);
  window.set_state(v1::WINDOW_STATE_ATTACHED);
  EXPECT_FALSE(MayBeEnteredLater(window));
}

TEST_F(SettleTargetTest, AtTheEndACollectorThatArmedItselfIsBelieved) {
  ReportIn();
  Arm(&fake_, kWindowNs + 1);
  EXPECT_TRUE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_EQ(target_->verdict(), Verdict::kAttached);
  EXPECT_FALSE(SettleAtEnd(target_.get(), Killed()));
}

TEST_F(SettleTargetTest, AtTheEndARefusalIsQuoted) {
  ReportIn();
  Refuse(&fake_);
  EXPECT_TRUE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_EQ(target_->verdict(), Verdict::kRefused);
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_COLLECTOR_REFUSED);
  EXPECT_THAT(target_->window().detail(), HasSubstr("table of 12 bytes"));
}

// A program without a GPU was not missed: there was nothing to record.
TEST_F(SettleTargetTest, AtTheEndAFailedInitLeavesNothingToRecord) {
  ReportIn();
  PutInPlace(&fake_);
  fake_.control()->init_status = 0x1008;
  EXPECT_TRUE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_EQ(target_->verdict(), Verdict::kPassed);
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_NONE);
  EXPECT_THAT(target_->window().detail(), HasSubstr("0x1008"));
}

TEST_F(SettleTargetTest, AtTheEndTheVerdictSaysHowFarTheCollectorHadCome) {
  target_ = NewTarget(Attached(1));
  EXPECT_TRUE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_EQ(target_->verdict(), Verdict::kMissed);
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_DIED_DURING_ATTACH);
  EXPECT_THAT(target_->window().detail(), HasSubstr("before the collector reported"));
  ReportIn(2);
  EXPECT_TRUE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_THAT(target_->window().detail(), HasSubstr("before the runtime called it"));
  ReportIn(3);
  PutInPlace(&fake_);
  EXPECT_TRUE(SettleAtEnd(target_.get(), Killed()));
  EXPECT_EQ(target_->verdict(), Verdict::kMissed);
  EXPECT_THAT(target_->window().detail(), HasSubstr("with the collector in place"));
}

TEST_F(SettleTargetTest, BeforeTheNextWindowASilentCollectorIsRefused) {
  ReportIn();
  // Armed, but for an earlier window.
  Arm(&fake_, kWindowNs - 1);
  EXPECT_TRUE(SettleBeforeReopen(target_.get()));
  EXPECT_EQ(target_->verdict(), Verdict::kRefused);
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_COLLECTOR_SILENT);
  EXPECT_THAT(target_->window().detail(), HasSubstr("its next window"));
  EXPECT_FALSE(SettleBeforeReopen(target_.get()));
}

TEST_F(SettleTargetTest, BeforeTheNextWindowTheCollectorsReportCounts) {
  ReportIn(1);
  Arm(&fake_, kWindowNs + 1);
  EXPECT_TRUE(SettleBeforeReopen(target_.get()));
  EXPECT_EQ(target_->verdict(), Verdict::kAttached);
  ReportIn(2);
  Refuse(&fake_);
  EXPECT_TRUE(SettleBeforeReopen(target_.get()));
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_COLLECTOR_REFUSED);
}

TEST_F(SettleTargetTest, OverdueMeansLongerThanTheTimeout) {
  target_ = NewTarget(Attached());
  EXPECT_FALSE(SettleIfOverdue(target_.get(), kWindowNs + kTimeoutNs, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kOpen);
  EXPECT_TRUE(SettleIfOverdue(target_.get(), kWindowNs + kTimeoutNs + 1, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kRefused);
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_COLLECTOR_SILENT);
  EXPECT_THAT(target_->window().detail(), HasSubstr("did not report in"));
}

// It notices the end of hsa_init, however long that takes.
TEST_F(SettleTargetTest, ACollectorInPlaceIsNeverOverdue) {
  ReportIn();
  PutInPlace(&fake_);
  EXPECT_FALSE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kOpen);
}

TEST_F(SettleTargetTest, AProcessThatWasNotAttachedToIsNotOverdue) {
  Window window = Attached();
  window.attach_tried = false;
  target_ = NewTarget(std::move(window));
  EXPECT_FALSE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kOpen);
}

TEST_F(SettleTargetTest, AnOverdueVerdictSaysIfTheCollectorWasNeverCalled) {
  ReportIn();
  EXPECT_TRUE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kRefused);
  EXPECT_THAT(target_->window().detail(), HasSubstr("the runtime never called it"));
}

TEST_F(SettleTargetTest, ALostThreadIsOverdueAsWell) {
  Window window = Attached();
  window.outcome.stage = AttachStage::kStop;
  window.outcome.reason = AttachReason::kTargetExited;
  window.outcome.detail = "the thread has exited";
  const auto detail_of = [this](Window lost) {
    target_ = NewTarget(std::move(lost));
    EXPECT_TRUE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
    EXPECT_EQ(target_->verdict(), Verdict::kMissed);
    EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_TARGET_EXITED);
    return target_->window().detail();
  };
  EXPECT_EQ(detail_of(window),
            "the thread has exited; the process has ended, and was not attached to");
  window.event.pid = static_cast<uint32_t>(getpid());
  window.event.start_ns = *ReadStartTicks(getpid()) * ClockTickNs();
  EXPECT_EQ(detail_of(window),
            "the thread has exited; the process runs on and was not attached to");
}

// It may report after it was last read, and before it is found to be overdue.
TEST_F(SettleTargetTest, AnOverdueCollectorThatHasReportedIsNotSilent) {
  ReportIn(1);
  Refuse(&fake_);
  EXPECT_TRUE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
  EXPECT_EQ(target_->window().reason(), v1::ATTACH_REASON_COLLECTOR_REFUSED);
  ReportIn(2);
  Arm(&fake_, kWindowNs + 1);
  EXPECT_TRUE(SettleIfOverdue(target_.get(), UINT64_MAX, kTimeoutNs));
  EXPECT_EQ(target_->verdict(), Verdict::kAttached);
}

}  // namespace
}  // namespace rocattach
