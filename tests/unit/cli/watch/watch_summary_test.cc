#include "userspace/cli/watch/watch_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "tests/unit/cli/watch/console_file.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class WatchSummaryTest : public testing::Test {
 protected:
  WatchSummaryTest() : options_(file_.Options()) {
    result_.totals.attached = 2;
    result_.totals.passed = 3;
    result_.totals.refused = 4;
    result_.totals.missed = 5;
    result_.totals.dispatches = 1000;
    result_.totals.copies = 6;
    result_.files = {"run.rwa"};
  }
  // Text printed on the console; errors_ gets what is printed on standard error.
  std::string Printed() {
    testing::internal::CaptureStderr();
    {
      ConsoleOutput out(options_);
      WatchSummary(options_, unnamed_, &out).Print(result_);
    }
    errors_ = testing::internal::GetCapturedStderr();
    return file_.Text();
  }
  nlohmann::json PrintedEvent() {
    options_.json = true;
    return nlohmann::json::parse(Printed());
  }

  const ConsoleFile file_;
  WatchConsoleOptions options_;
  UnnamedCounts unnamed_;
  RunResult result_;
  std::string errors_;
};

TEST_F(WatchSummaryTest, PrintsTotalsAndThePathOfTheRecording) {
  EXPECT_EQ(Printed(),
            "rocattach-watch: 2 attached, 3 passed, 4 refused, 5 missed; "
            "1,000 dispatches, 6 copies, 0 lost\n"
            "rocattach-watch: wrote run.rwa\n");
  EXPECT_EQ(errors_, "");
}

TEST_F(WatchSummaryTest, PrintsLostUnseenAndSampledOutCounts) {
  result_.totals.dropped = 7;
  result_.totals.unseen = 8;
  result_.totals.sampled_out = 9;
  result_.totals.unrelated = 10;
  const std::string text = Printed();
  EXPECT_THAT(text,
              HasSubstr("6 copies, 9 dispatches sampled out, 7 LOST, 8 UNSEEN\n"));
  EXPECT_THAT(text, HasSubstr("10 other GPU processes started meanwhile"));
}

// Problems are printed even for users who want to see nothing else.
TEST_F(WatchSummaryTest, ProblemsArePrintedEvenWhenQuiet) {
  options_.quiet = true;
  result_.output_status = absl::ResourceExhaustedError("no space left");
  result_.kernel.lost = 1;
  result_.kernel.claims_full = 2;
  result_.totals.not_believable = 1;
  result_.refusals = {{1000, 11}};
  result_.missed_windows[MissReason::kLate] = 1;
  result_.missed_windows[MissReason::kTooManyCopies] = 12;
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("the recording is incomplete: no space left\n"));
  EXPECT_THAT(text, HasSubstr("3 kernel events were lost"));
  EXPECT_THAT(text, HasSubstr("1 process reported impossible numbers"));
  EXPECT_THAT(text, HasSubstr("11 windows of "));
  EXPECT_THAT(text, HasSubstr("1 process started a new copy of the HSA runtime"));
  EXPECT_THAT(text, HasSubstr("12 processes used a copy of the HSA runtime without a "
                              "probe"));
  EXPECT_THAT(text, Not(HasSubstr("attached")));
}

TEST_F(WatchSummaryTest, WithoutProblemsItIsQuiet) {
  options_.quiet = true;
  EXPECT_EQ(Printed(), "");
}

TEST_F(WatchSummaryTest, CountsThoseThatWereNotNamed) {
  unnamed_.passed = 13;
  unnamed_.refused = 14;
  unnamed_.session_refused = 15;
  const std::string text = Printed();
  EXPECT_THAT(text, HasSubstr("13 of those that passed are not named"));
  EXPECT_THAT(text, HasSubstr("14 of those that were refused are not named"));
  EXPECT_THAT(text, HasSubstr("15 more session refusals"));
}

TEST_F(WatchSummaryTest, HoldTimesAreShownIfThereWereHolds) {
  result_.totals.hit_to_released.Add(400'000);
  EXPECT_THAT(Printed(), HasSubstr("held median 400 us, p99 400 us, max 400 us\n"));
}

TEST_F(WatchSummaryTest, ACommandThatStillRunsIsMentioned) {
  result_.command_runs_on = true;
  EXPECT_THAT(Printed(), HasSubstr("--duration-msec elapsed; waiting for the command"));
}

TEST_F(WatchSummaryTest, ASessionThatCollectedSomething) {
  result_.session_measures = true;
  result_.totals.measured = 16;
  result_.totals.samples = 17;
  result_.totals.api_calls = 18;
  result_.totals.memory = 19;
  EXPECT_THAT(Printed(),
              StartsWith("rocattach-watch: the session collected counters of "
                         "16 dispatches, 17 samples of GPUs, 18 API calls, "
                         "19 allocations and releases of memory\n"));
  EXPECT_EQ(errors_, "");
}

TEST_F(WatchSummaryTest, ASessionThatEveryProcessRefused) {
  result_.session_refused = result_.session_measures = true;
  Printed();
  EXPECT_THAT(errors_, HasSubstr("collected nothing: every process refused it"));
}

TEST_F(WatchSummaryTest, ASessionThatCameTooLate) {
  result_.session_too_late = result_.session_measures = true;
  result_.totals.before_session = 20;
  Printed();
  EXPECT_THAT(errors_, HasSubstr("when it was in force, 20 dispatches had been made"));
  EXPECT_THAT(errors_, HasSubstr("--session-wait-msec"));
}

TEST_F(WatchSummaryTest, ASessionThatMatchedNothing) {
  result_.session_measures = true;
  Printed();
  EXPECT_THAT(errors_, HasSubstr("nothing matched its filters"));
}

// There was no process to measure.
TEST_F(WatchSummaryTest, ASessionWithoutProcesses) {
  result_.session_measures = true;
  result_.totals.attached = 0;
  EXPECT_THAT(Printed(), Not(HasSubstr("session")));
  EXPECT_EQ(errors_, "");
}

TEST_F(WatchSummaryTest, IsOneEventForPrograms) {
  result_.totals.measured = 16;
  result_.totals.dropped = 7;
  result_.totals.unseen = 8;
  result_.totals.hit_to_released.Add(400'000);
  result_.kernel.lost = 1;
  result_.kernel.claims_full = 2;
  result_.kernel.deadlines = 3;
  result_.refusals = {{1000, 11}};
  result_.missed_windows[MissReason::kLate] = 1;
  result_.command_runs_on = true;
  result_.output_status = absl::ResourceExhaustedError("no space left");
  const nlohmann::json event = PrintedEvent();
  EXPECT_EQ(event.value("event", ""), "summary");
  EXPECT_EQ(event.at("windows").value("attached", 0), 2);
  EXPECT_EQ(event.at("windows").value("passed", 0), 3);
  EXPECT_EQ(event.at("windows").value("refused", 0), 4);
  EXPECT_EQ(event.at("windows").value("missed", 0), 5);
  EXPECT_EQ(event.at("hit_to_released_ns").value("count", 0), 1);
  EXPECT_EQ(event.value("dispatches", 0), 1000);
  EXPECT_EQ(event.value("copies", 0), 6);
  EXPECT_EQ(event.value("counted", 0), 16);
  EXPECT_EQ(event.value("dropped", 0), 7);
  EXPECT_EQ(event.value("unseen", 0), 8);
  EXPECT_EQ(event.value("events_lost", 0), 1);
  EXPECT_EQ(event.value("claims_full", 0), 2);
  EXPECT_EQ(event.value("hold_deadlines", 0), 3);
  EXPECT_EQ(event.at("over_budget"),
            nlohmann::json::parse(R"([{"uid":1000,"windows":11}])"));
  EXPECT_EQ(event.at("missed_windows").value("late", 0), 1);
  EXPECT_EQ(event.at("files"), nlohmann::json::array({"run.rwa"}));
  EXPECT_TRUE(event.value("command_runs_on", false));
  EXPECT_EQ(event.value("output_error", ""), "no space left");
}

}  // namespace
}  // namespace rocattach
