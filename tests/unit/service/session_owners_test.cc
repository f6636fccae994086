// Sessions that conflict with each other, and sessions in periods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "absl/strings/match.h"
#include "tests/unit/service/session_service_fixture.h"
#include "userspace/base/session_status.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

TEST_F(SessionServiceTest, TheSecondSessionForAProcessIsRefusedAndNamesTheOwner) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  auto first = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = service_->Start(
      {.targets = {{.pid = 5'000'000}}, .filters = {Counters({"GRBM_COUNT"})}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(SessionStatusOf(second.status()), SessionStatus::kHasActiveSession);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("session " + std::to_string(*first)));
  EXPECT_TRUE(service_->Stop(*first).ok());
  second = service_->Start(
      {.targets = {{.pid = 5'000'000}}, .filters = {Counters({"GRBM_COUNT"})}});
  EXPECT_TRUE(second.ok()) << second.status();
  Exit();
}

// The service's own counting for metrics blocks no session; a pause is not reported.
TEST_F(SessionServiceTest, ASessionThatYieldsGivesWayAtOnceAndGoesOn) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  SessionRequest background;
  background.filters = {Counters({"SQ_WAVES"})};
  background.periods = {{1'000'000, 3'600'000'000'000, 1}};
  background.yields = true;
  const auto yielding = service_->Start(background);
  ASSERT_TRUE(yielding.ok()) << yielding.status();
  EXPECT_FALSE(service_->holds_arrivals());
  EXPECT_FALSE(service_->needs_sdk());
  const auto active = [&] { return service_->List().front().active; };
  for (int i = 0; i < 2000 && !active(); ++i) usleep(1000);
  ASSERT_TRUE(active());
  const auto user = service_->Start(
      {.targets = {{.pid = 5'000'000}}, .filters = {Counters({"GRBM_COUNT"})}});
  ASSERT_TRUE(user.ok()) << user.status();
  EXPECT_FALSE(active());
  EXPECT_TRUE(service_->List().back().active);
  EXPECT_TRUE(service_->Stop(*user).ok());
  for (int i = 0; i < 2000 && !active(); ++i) usleep(1000);
  EXPECT_TRUE(active());
  // And to a device session.
  const auto gpu = service_->CheckDevice({"GRBM_COUNT"}, 0);
  ASSERT_TRUE(gpu.ok()) << gpu.status();
  const auto device = service_->StartDevice({"GRBM_COUNT"}, *gpu);
  ASSERT_TRUE(device.ok()) << device.status();
  EXPECT_FALSE(active());
  EXPECT_GT(device->number, *user);
  EXPECT_TRUE(device->run->Stop().ok());
  EXPECT_TRUE(service_->Stop(*yielding).ok());
  Exit();
  std::lock_guard<std::mutex> lock(mutex_);
  EXPECT_EQ(times_refused_, 0);
}

// Two processes on one GPU: each can have its own session, but they share the counters.
TEST_F(SessionServiceTest, TheCountersOfAGpuHaveOneOwner) {
  FakeCollector fakes[2];
  Player first_player(&fakes[0]), second_player(&fakes[1]);
  Arrive(&fakes[0], 0, kAll, true, "GPU-XX");
  Arrive(&fakes[1], 1, kAll, true, "GPU-XX");
  auto first = service_->Start(
      {.targets = {{.pid = 5'000'000}}, .filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(first.ok()) << first.status();
  auto second = service_->Start(
      {.targets = {{.pid = 5'000'001}}, .filters = {Counters({"GRBM_COUNT"})}});
  EXPECT_EQ(SessionStatusOf(second.status()), SessionStatus::kHasActiveSession);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("the counters of GPU 0000:03:00.0 belong to session 1"));
  EXPECT_EQ(second_player.Generation(), 0u) << "it was not asked";
  // The second process's dispatches can still be timed: no session owns those.
  FilterSpec times;
  second = service_->Start({.targets = {{.pid = 5'000'001}}, .filters = {times}});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(service_->List().back().collects, std::vector<std::string>{"dispatches"});
  EXPECT_TRUE(service_->Stop(*second).ok());
  EXPECT_TRUE(service_->Stop(*first).ok());
  second = service_->Start(
      {.targets = {{.pid = 5'000'001}}, .filters = {Counters({"GRBM_COUNT"})}});
  EXPECT_TRUE(second.ok()) << second.status();
  Exit(0);
  Exit(1);
}

// A period that begins while another session owns the process is reported, and what is
// left of it is collected once that session is over.
TEST_F(SessionServiceTest, APeriodThatConflictsIsReportedAndWaits) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  auto owner = service_->Start(
      {.targets = {{.pid = 5'000'000}}, .filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(owner.ok()) << owner.status();
  SessionRequest request;
  request.filters = {Counters({"GRBM_COUNT"})};
  request.periods = {{10'000'000, 3'600'000'000'000, 1}};
  auto waiting = service_->Start(request);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  auto info = [&] { return service_->List().back(); };
  for (int i = 0; i < 2000 && info().waiting_for.empty(); ++i) usleep(1000);
  EXPECT_THAT(info().waiting_for, HasSubstr("session 1"));
  EXPECT_FALSE(info().active);
  EXPECT_TRUE(info().refused_by_all);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(refused_, HasSubstr("session 1"));
  }
  ASSERT_TRUE(service_->Stop(*owner).ok());
  for (int i = 0; i < 2000 && !info().active; ++i) usleep(1000);
  EXPECT_TRUE(info().active) << info().waiting_for;
  EXPECT_EQ(info().waiting_for, "");
  EXPECT_FALSE(info().refused_by_all);
  EXPECT_TRUE(service_->Stop(*waiting).ok());
  Exit();
  const Seen seen = Finish();
  std::vector<std::pair<int, int>> events;
  for (const v1::SessionEvent& event : seen.events) {
    events.emplace_back(event.session(), event.what());
  }
  using E = v1::SessionEvent;
  EXPECT_EQ(events, (std::vector<std::pair<int, int>>{{1, E::STARTED},
                                                      {2, E::REFUSED},
                                                      {1, E::STOPPED},
                                                      {2, E::STARTED},
                                                      {2, E::STOPPED}}));
}

// Every lost period is in the stream; the user is notified once.
TEST_F(SessionServiceTest, EachLostPeriodIsRecorded) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  ASSERT_TRUE(service_
                  ->Start({.targets = {{.pid = 5'000'000}},
                           .filters = {Counters({"SQ_WAVES"})}})
                  .ok());
  SessionRequest request;
  request.filters = {Counters({"GRBM_COUNT"})};
  request.periods = {{60'000'000, 60'000'000, 3}};
  ASSERT_TRUE(service_->Start(request).ok());
  for (int i = 0; i < 2000 && !service_->List().back().over; ++i) usleep(1000);
  EXPECT_TRUE(service_->List().back().over);
  Exit();
  uint64_t lost = 0;
  int in_the_way = 0;
  for (const v1::SessionEvent& event : Finish().events) {
    if (event.session() != 2) continue;
    EXPECT_EQ(event.what(), v1::SessionEvent::REFUSED);
    const bool named = event.detail().find("session 1") != std::string::npos;
    in_the_way += named;
    // Otherwise it is the number of periods for which the service itself was late.
    lost += named ? 1 : std::stoul(event.detail());
  }
  EXPECT_EQ(lost, 3u);
  if (in_the_way == 3) {
    EXPECT_EQ(times_refused_, 1);
  }
}

// No process was able to carry out the period of a session for all processes; one that
// can arrives in the middle of it.
TEST_F(SessionServiceTest, APeriodThatAllRefusedContinuesInALaterProcess) {
  FakeCollector without, with;
  Player first(&without), second(&with);
  Arrive(&without, 0, ROCATTACH_PLAN_RECORD_DISPATCHES);
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.periods = {{10'000'000, 3'600'000'000'000, 1}};
  auto session = service_->Start(request);
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 2000 && service_->List()[0].waiting_for.empty(); ++i) {
    usleep(1000);
  }
  EXPECT_THAT(service_->List()[0].waiting_for, HasSubstr("hardware counters"));
  Arrive(&with, 1);
  for (int i = 0; i < 2000 && service_->List()[0].running.empty(); ++i) usleep(1000);
  EXPECT_EQ(service_->List()[0].running, (std::vector<pid_t>{5'000'001}));
  Exit(0);
  Exit(1);
}

TEST_F(SessionServiceTest, TimesBeyondReasonAreRefused) {
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.duration_ns = UINT64_MAX;
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Start(request).status()));
  request.duration_ns = 0;
  request.periods = {{UINT64_MAX, 1, 1}};
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Start(request).status()));
  request.periods = {{1, UINT64_MAX, 1}};
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Start(request).status()));
  EXPECT_TRUE(service_->List().empty());
}

TEST_F(SessionServiceTest, SessionsEndAfterTheirDurationAndRepeatTheirPeriods) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.periods = {{60'000'000, 60'000'000, 3}};
  auto session = service_->Start(request);
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 2000 && !service_->List()[0].over; ++i) usleep(1000);
  EXPECT_TRUE(service_->List()[0].over);
  request.periods.clear();
  request.duration_ns = 30'000'000;
  ASSERT_TRUE(service_->Start(request).ok());
  for (int i = 0; i < 2000 && !service_->List()[1].over; ++i) usleep(1000);
  EXPECT_TRUE(service_->List()[1].over);
  Exit();
  // On a busy machine the service may be late for a period, which it reports.
  uint64_t begun = 0;
  for (const v1::SessionEvent& event : Finish().events) {
    begun += event.what() == v1::SessionEvent::STARTED;
    if (event.what() == v1::SessionEvent::REFUSED) begun += std::stoul(event.detail());
  }
  EXPECT_EQ(begun, 4u);
}

// A process that needs several periods for its first start has not refused anything, so
// users are not notified of a refusal.
TEST_F(SessionServiceTest, SkippedPeriodsAreNoRefusals) {
  constexpr uint64_t kPeriodNs = 20'000'000;
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  player.Hold(true);
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.periods = {{kPeriodNs, kPeriodNs, 1000}};
  ASSERT_TRUE(service_->Start(request).ok());
  const uint64_t begin_ns = BootNs();
  while (BootNs() < begin_ns + 8 * kPeriodNs) std::this_thread::yield();
  player.Hold(false);
  const auto skipped = [&] {
    std::lock_guard<std::mutex> lock(mutex_);
    return times_skipped_ != 0;
  };
  for (int i = 0; i < 5000 && !skipped(); ++i) usleep(1000);
  EXPECT_TRUE(service_->Stop(1).ok());
  Exit();
  EXPECT_GT(skipped_, 0u);
  EXPECT_EQ(times_skipped_, 1) << "of later ones only the recording tells";
  // The session may be stopped just before a period begins.
  EXPECT_LE(times_refused_, 1);
  EXPECT_TRUE(times_refused_ == 0 ||
              absl::EndsWith(refused_, "the session ended before it could begin"))
      << refused_;
  size_t events = 0;
  for (const v1::SessionEvent& event : Finish().events) {
    events += event.detail().find("skipped") != std::string::npos;
  }
  EXPECT_GT(events, 0u) << "the recording has them";
}

TEST(SkippedPeriods, AreCounted) {
  EXPECT_EQ(SkippedPeriodsText(1),
            "1 period was skipped: it had passed before the service could start it");
  EXPECT_EQ(SkippedPeriodsText(4),
            "4 periods were skipped: they had passed before the service could start "
            "them");
}

}  // namespace
}  // namespace rocattach
