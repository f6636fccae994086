#include "userspace/cli/attach_result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "userspace/cli/said_reasons.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr pid_t kPid = 100;

// A process that is attached, with `dispatches` dispatches, all of them recorded.
ProcessResult Attached(uint64_t dispatches) {
  ProcessResult process;
  process.name = "app";
  process.attached = true;
  process.window.set_state(v1::WINDOW_STATE_ATTACHED);
  process.account.set_dispatches_seen(dispatches);
  process.account.set_dispatches_delivered(dispatches);
  return process;
}

void ExpectOutcome(const ProcessResult& process, AttachResult result,
                   const char* status, bool recording = true) {
  const ProcessOutcome outcome = OutcomeOf(process, recording);
  EXPECT_EQ(outcome.result, result) << status;
  EXPECT_STREQ(outcome.status, status);
}

TEST(AttachResultTest, AProcessWithRecordsAndNoLossIsRecorded) {
  ExpectOutcome(Attached(10), AttachResult::kRecorded, "recorded");
  for (auto set : {&v1::LossAccount::set_copies_delivered,
                   &v1::LossAccount::set_api_calls_delivered,
                   &v1::LossAccount::set_samples_delivered,
                   &v1::LossAccount::set_memory_delivered}) {
    ProcessResult process = Attached(0);
    (process.account.*set)(1);
    ExpectOutcome(process, AttachResult::kRecorded, "recorded");
  }
}

TEST(SaidReasonsTest, ALongReasonIsShownOnce) {
  SaidReasons said;
  const std::string reason(100, 'x');
  EXPECT_EQ(said.TextToSay(1, reason), reason);
  EXPECT_EQ(said.TextToSay(1, reason), std::nullopt);
  EXPECT_EQ(said.TextToSay(2, reason), "for the same reason as process 1");
  EXPECT_EQ(said.TextToSay(2, reason), std::nullopt);
  EXPECT_EQ(said.TextToSay(1, "another one"), "another one");
  EXPECT_EQ(said.TextToSay(2, "another one"), "another one");
}

TEST(SaidReasonsTest, ItemsMissingForTheSameReasonAreListedTogether) {
  const std::vector<LeftOut> merged = ByReason({{"counters", "it has no SDK"},
                                                {"TCC_HIT", "unknown"},
                                                {"markers", "it has no SDK"}});
  ASSERT_EQ(merged.size(), 2u);
  EXPECT_EQ(merged[0].Text(), "without counters, markers: it has no SDK");
  EXPECT_EQ(merged[1].Text(), "without TCC_HIT: unknown");
}

TEST(AttachResultTest, AnObservedProcessMayHaveDoneNothing) {
  ExpectOutcome(Attached(0), AttachResult::kNothingHappened, "nothing-happened");
}

TEST(AttachResultTest, LossesMakeItIncomplete) {
  ProcessResult process = Attached(10);
  process.account.set_dispatches_seen(12);
  process.account.set_dropped_ring_full(2);
  ExpectOutcome(process, AttachResult::kNotRecorded, "incomplete");
  // The same without any record.
  process = Attached(0);
  process.account.set_dropped_ring_full(2);
  ExpectOutcome(process, AttachResult::kNotRecorded, "incomplete");
}

TEST(AttachResultTest, AProblemMakesItIncompleteOrNotRecorded) {
  ProcessResult process = Attached(10);
  process.problem = "the session was refused: no SDK";
  ExpectOutcome(process, AttachResult::kNotRecorded, "incomplete");
  process = Attached(0);
  process.problem = "the session was refused: no SDK";
  ExpectOutcome(process, AttachResult::kNotRecorded, "not-recorded");
}

// --no-recording
TEST(AttachResultTest, WithoutARecordingAnAttachIsEnough) {
  ExpectOutcome(Attached(0), AttachResult::kRecorded, "not-recorded",
                /*recording=*/false);
  ProcessResult process = Attached(0);
  process.problem = "the session was refused: no SDK";
  ExpectOutcome(process, AttachResult::kNotRecorded, "not-recorded",
                /*recording=*/false);
}

TEST(AttachResultTest, NotAttachedDiffersFromPassed) {
  ProcessResult process;
  process.problem = "it has ended";
  ExpectOutcome(process, AttachResult::kNotRecorded, "not-attached");
  process.passed = true;
  ExpectOutcome(process, AttachResult::kNothingHappened, "passed");
}

// The pass is from an earlier verdict.
TEST(AttachResultTest, APassedProcessThatIsAttachedLaterCountsAsAttached) {
  ProcessResult process = Attached(10);
  process.passed = true;
  ExpectOutcome(process, AttachResult::kRecorded, "recorded");
}

TEST(AttachResultTest, TheEventHasTheNumbersOfTheAccount) {
  ProcessResult process = Attached(10);
  process.account.set_copies_delivered(2);
  process.account.set_api_calls_delivered(3);
  process.account.set_samples_delivered(4);
  process.account.set_memory_delivered(5);
  process.account.set_untimed(6);
  process.missing = {{"markers", "another tool has the SDK"}};
  process.reason = "loader-busy";  // left by an earlier attempt
  const nlohmann::ordered_json event =
      ResultJson(kPid, process, OutcomeOf(process, /*recording=*/true));
  EXPECT_EQ(event.value("event", ""), "result");
  EXPECT_EQ(event.value("pid", 0), kPid);
  EXPECT_EQ(event.value("comm", ""), "app");
  EXPECT_EQ(event.value("status", ""), "recorded");
  EXPECT_EQ(event.value("dispatches", 0), 10);
  EXPECT_EQ(event.value("copies", 0), 2);
  EXPECT_EQ(event.value("api_calls", 0), 3);
  EXPECT_EQ(event.value("samples", 0), 4);
  EXPECT_EQ(event.value("memory_records", 0), 5);
  EXPECT_EQ(event.value("untimed", 0), 6);
  EXPECT_EQ(event.value("lost", -1), 0);
  EXPECT_EQ(event.value("reason", ""), "none");
  EXPECT_EQ(event.at("missing").dump(),
            R"([{"what":"markers","why":"another tool has the SDK"}])");
}

TEST(AttachResultTest, TheEventOfAProcessThatWasNotAttachedToHasTheReason) {
  ProcessResult process;
  process.problem = "it has ended";
  process.reason = "target-exited";
  const nlohmann::ordered_json event =
      ResultJson(kPid, process, OutcomeOf(process, /*recording=*/true));
  EXPECT_EQ(event.value("status", ""), "not-attached");
  EXPECT_EQ(event.value("entry", ""), "none");
  EXPECT_EQ(event.value("tid", -1), 0);
  EXPECT_EQ(event.value("stopped_ns", -1), 0);
  EXPECT_EQ(event.value("reason", ""), "target-exited");
  EXPECT_EQ(event.value("detail", ""), "it has ended");
}

TEST(AttachResultTest, TextStatesRecordedAndLostCounts) {
  ProcessResult process = Attached(1000);
  process.account.set_copies_delivered(2);
  EXPECT_EQ(ResultText(kPid, process, /*recording=*/true),
            "process 100 (app): 1,000 dispatches, 2 copies");
  process.account.set_dropped_ring_full(7);
  process.problem = "the session was refused";
  const std::string text = ResultText(kPid, process, /*recording=*/true);
  EXPECT_THAT(text, HasSubstr("2 copies, lost: 7"));
  EXPECT_THAT(text, testing::EndsWith("; the session was refused"));
  process.problem_said = true;
  EXPECT_THAT(ResultText(1, process, true),
              testing::EndsWith("; the session was refused, see above"));
}

TEST(AttachResultTest, TheTextSaysThatNothingWasRecorded) {
  EXPECT_THAT(ResultText(kPid, Attached(0), /*recording=*/true),
              HasSubstr("it was observed, and dispatched and copied nothing"));
  EXPECT_THAT(ResultText(kPid, Attached(0), /*recording=*/false),
              HasSubstr("attached, and not recorded as requested"));
  // Lost operations are work that the process has done.
  ProcessResult process = Attached(0);
  process.account.set_dropped_ring_full(7);
  EXPECT_THAT(ResultText(kPid, process, /*recording=*/true),
              Not(HasSubstr("it was observed")));
}

}  // namespace
}  // namespace rocattach
