#include "userspace/service/own_session.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <memory>
#include <utility>

#include "tests/await.h"
#include "tests/unit/service/session_service_fixture.h"

namespace rocattach {
namespace {

class OwnSessionTest : public SessionServiceTest {
 protected:
  std::unique_ptr<OwnSession> Start(SessionRequest request) {
    auto session = OwnSession::Start(request, service_.get());
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *std::move(session) : nullptr;
  }
  // Totals of a recording whose session began after all dispatches.
  static RunTotals Late() {
    RunTotals totals;
    totals.dispatches = totals.before_session = 5;
    return totals;
  }
};

TEST_F(OwnSessionTest, IsASessionOfTheService) {
  const auto session = Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_NE(session, nullptr);
  ASSERT_EQ(service_->List().size(), 1u);
  EXPECT_EQ(service_->List()[0].number, session->number());
}

TEST_F(OwnSessionTest, ASessionThatTheServiceRefusesIsAnError) {
  const auto session =
      OwnSession::Start({.filters = {Counters({"NO_SUCH_COUNTER"})}}, service_.get());
  EXPECT_FALSE(session.ok());
}

TEST_F(OwnSessionTest, ARefusalCountsAsAnAnswer) {
  FakeCollector with, without;
  Player accepts(&with), refuses(&without, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  const auto session = Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->Answers(/*settled=*/false, {}), 0u);
  EXPECT_EQ(session->Answers(/*settled=*/true, {}), 0u);
  Arrive(&with, 0);
  Arrive(&without, 1);
  testing_support::Await([&] { return session->Answers(/*settled=*/true, {}) >= 2; },
                         "the answers of both processes");
  EXPECT_EQ(session->Answers(/*settled=*/false, {}), 2u);
  Exit(0);
  Exit(1);
  service_->Close();
  EXPECT_FALSE(session->Result({}).session_refused) << "one process serves it";
}

// It answers at its next call of the runtime, before that call is recorded.
TEST_F(OwnSessionTest, AProcessThatDoesNotUseTheGpuIsNotWaitedFor) {
  const auto session = Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_NE(session, nullptr);
  RunTotals totals;
  totals.attached = 3;
  totals.uncalled = 2;
  EXPECT_EQ(session->Answers(/*settled=*/true, totals), 2u);
}

TEST_F(OwnSessionTest, ASessionThatEveryProcessRefuses) {
  FakeCollector fake;
  Player refuses(&fake, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  const auto session = Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_NE(session, nullptr);
  Arrive(&fake);
  testing_support::Await([&] { return session->Answers(/*settled=*/true, {}) >= 1; },
                         "the answer of the process");
  Exit();
  service_->Close();
  EXPECT_TRUE(session->Result({}).session_refused);
}

// It used the GPU and ended before anyone could look, as after a late attach: nothing
// was collected, which must not look like success. The service may end at once.
TEST_F(OwnSessionTest, AProcessThatEndsTooSoonIsReported) {
  const auto session = Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_NE(session, nullptr);
  service_->targets()->OnTargetMissed({4711, 5});
  service_->Close();
  EXPECT_TRUE(session->Result({}).session_refused);
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(refused_, "the process ended before the session could begin in it");
  EXPECT_EQ(times_refused_, 1);
}

TEST_F(OwnSessionTest, ASessionOfDispatchesMissesNothing) {
  const FilterSpec dispatches;
  const auto session = Start({.filters = {dispatches}});
  ASSERT_NE(session, nullptr);
  service_->targets()->OnTargetMissed({4711, 5});
  service_->Close();
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(times_refused_, 0);
}

TEST_F(OwnSessionTest, IsTooLateIfAllWasDoneBefore) {
  const auto session = Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_NE(session, nullptr);
  EXPECT_TRUE(session->Result(Late()).session_measures);
  EXPECT_TRUE(session->Result(Late()).session_too_late);
  EXPECT_FALSE(session->Result({}).session_too_late) << "nothing was done";
  RunTotals more = Late();
  ++more.dispatches;
  EXPECT_FALSE(session->Result(more).session_too_late);
  for (uint64_t RunTotals::*collected : {&RunTotals::measured, &RunTotals::samples,
                                         &RunTotals::api_calls, &RunTotals::memory}) {
    RunTotals totals = Late();
    totals.*collected = 1;
    EXPECT_FALSE(session->Result(totals).session_too_late);
  }
}

// Its periods may begin later.
TEST_F(OwnSessionTest, ASessionWithPeriodsIsNeverTooLate) {
  SessionRequest request{.filters = {Counters({"SQ_WAVES"})}};
  request.periods = {{.delay_ns = 0, .duration_ns = 1'000'000'000, .repeat = 1}};
  const auto session = Start(std::move(request));
  ASSERT_NE(session, nullptr);
  EXPECT_FALSE(session->Result(Late()).session_too_late);
}

TEST_F(OwnSessionTest, ASessionOfDispatchesMeasuresNothing) {
  FilterSpec spec;
  spec.kind = FilterKind::kDispatchTimestamps;
  const auto session = Start({.filters = {spec}});
  ASSERT_NE(session, nullptr);
  EXPECT_FALSE(session->Result(Late()).session_measures);
  EXPECT_FALSE(session->Result(Late()).session_too_late);
}

}  // namespace
}  // namespace rocattach
