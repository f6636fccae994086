// One start of a session on processes that exist only in the test.
#include "userspace/session/target_run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/session/fake_backend.h"
#include "userspace/base/session_status.h"
#include "userspace/session/session_handle.h"
#include "userspace/session/target_runner.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct KeepingConsumer : RecordConsumer {
  void Consume(const RecordHeader* begin, const RecordHeader* end) override {
    ++calls;
    for (const char* at = reinterpret_cast<const char*>(begin);
         at < reinterpret_cast<const char*>(end);
         at += reinterpret_cast<const RecordHeader*>(at)->bytes) {
      correlations.push_back(
          RecordAs<DispatchRecord>(reinterpret_cast<const RecordHeader*>(at))
              .correlation_id);
    }
  }
  void TargetEnded(ProcessId target) override { ended.push_back(target.pid); }

  int calls = 0;
  std::vector<uint64_t> correlations;
  std::vector<pid_t> ended;
};

class TargetRunTest : public ::testing::Test {
 protected:
  std::shared_ptr<TargetRun> NewRun(FilterSpec filter,
                                    std::shared_ptr<RecordConsumer> consumer = nullptr,
                                    std::vector<ProcessId> targets = {}) {
    RunSpec spec;
    spec.session = SessionOfNumber(++sessions_);
    spec.filters = {std::move(filter)};
    spec.targets = std::move(targets);
    spec.consumer = std::move(consumer);
    spec.names = std::make_shared<SessionTargetNames>();
    return runner_.NewTargetRun(std::move(spec));
  }
  static FilterSpec Counters(std::vector<std::string> names) {
    FilterSpec filter;
    filter.kind = FilterKind::kCounters;
    filter.counters = {std::move(names)};
    return filter;
  }
  static DispatchEvent Dispatch(uint64_t correlation) {
    DispatchEvent event = {};
    event.dispatch.kind = ROCATTACH_RECORD_DISPATCH;
    event.dispatch.correlation_id = correlation;
    event.dispatch.agent_id = 1;
    event.for_timestamps = true;
    return event;
  }

  uint64_t sessions_ = 0;
  const std::shared_ptr<FakeBackend> backend_ = std::make_shared<FakeBackend>();
  const ProcessId target_ = backend_->AddProcess(100, {MakeGpu(1, "GPU-a")});
  TargetRunner runner_{backend_,
                       std::make_shared<CounterCatalog>(*CounterCatalog::Builtin())};
};

TEST_F(TargetRunTest, RecordsWithoutAConsumerAreOnlyCounted) {
  const auto run = NewRun(FilterSpec());
  ASSERT_TRUE(run->Start().ok());
  EXPECT_FALSE(backend_->process(target_).sink->ReadsDispatches());
  ASSERT_TRUE(backend_->Dispatch(target_, Dispatch(1)));
  backend_->process(target_).sink->CountDispatches(5, 2);
  EXPECT_EQ(run->collected().dispatches, 6u);
  EXPECT_EQ(run->collected().counted, 2u);
  ASSERT_TRUE(run->Stop().ok());
}

TEST_F(TargetRunTest, AConsumerGetsWhatArrivesTogetherInOneCall) {
  const auto consumer = std::make_shared<KeepingConsumer>();
  const auto run = NewRun(FilterSpec(), consumer);
  ASSERT_TRUE(run->Start().ok());
  const std::vector<DispatchEvent> events = {Dispatch(1), Dispatch(2), Dispatch(3)};
  backend_->process(target_).sink->OnDispatches(target_, events);
  EXPECT_EQ(consumer->calls, 1);
  EXPECT_THAT(consumer->correlations, ElementsAre(1, 2, 3));
  backend_->End(target_);
  EXPECT_THAT(consumer->ended, ElementsAre(100));
  EXPECT_THAT(run->Running(), IsEmpty());
  ASSERT_TRUE(run->Stop().ok());
  EXPECT_EQ(run->collected().dispatches, 3u);
}

// A message of the socket has a limit.
TEST_F(TargetRunTest, MuchThatArrivesTogetherIsDivided) {
  const auto consumer = std::make_shared<KeepingConsumer>();
  const auto run = NewRun(FilterSpec(), consumer);
  ASSERT_TRUE(run->Start().ok());
  const std::vector<DispatchEvent> events(10'000, Dispatch(7));
  backend_->process(target_).sink->OnDispatches(target_, events);
  EXPECT_GE(consumer->calls, 4);
  EXPECT_EQ(consumer->correlations.size(), events.size());
  ASSERT_TRUE(run->Stop().ok());
}

TEST_F(TargetRunTest, EachProcessThatRefusesHasItsReason) {
  const ProcessId poor =
      backend_->AddProcess(50, {MakeGpu(1, "GPU-b")}, ROCATTACH_PLAN_RECORD_DISPATCHES);
  const auto run = NewRun(Counters({"SQ_WAVES"}));
  ASSERT_TRUE(run->Start().ok());
  EXPECT_THAT(run->Running(), ElementsAre(target_));
  ASSERT_EQ(run->Refused().size(), 1u);
  const absl::Status why = run->Refused().at(poor);
  EXPECT_EQ(SessionStatusOf(why), SessionStatus::kFilterNotSupported) << why;
  ASSERT_TRUE(run->Stop().ok());
  EXPECT_THAT(run->Running(), IsEmpty());
  // Unless it was named: then nothing is started.
  const auto named = NewRun(Counters({"SQ_WAVES"}), nullptr, {target_, poor});
  EXPECT_EQ(SessionStatusOf(named->Start()), SessionStatus::kFilterNotSupported);
  ASSERT_TRUE(named->Stop().ok());
  EXPECT_FALSE(backend_->process(target_).running);
}

TEST_F(TargetRunTest, ALaterProcessIsStartedOnceAndNotAfterTheEnd) {
  const auto run = NewRun(FilterSpec());
  ASSERT_TRUE(run->Start().ok());
  const ProcessId late = backend_->AddProcess(300, {MakeGpu(1, "GPU-a")});
  runner_.Arrived(late);
  runner_.Arrived(late);
  EXPECT_EQ(backend_->process(late).starts, 1);
  ASSERT_TRUE(run->Stop().ok());
  const ProcessId later = backend_->AddProcess(400, {MakeGpu(1, "GPU-a")});
  runner_.Arrived(later);
  run->Arrived(later);
  EXPECT_EQ(backend_->process(later).starts, 0);
}

// A service may run for months, and any number of processes refuse a session.
TEST_F(TargetRunTest, RefusalsOfProcessesThatHaveEndedAreForgotten) {
  const auto run = NewRun(Counters({"SQ_WAVES"}));
  ASSERT_TRUE(run->Start().ok());
  const auto arrive = [&](pid_t pid) {
    const ProcessId poor = backend_->AddProcess(pid, {MakeGpu(1, "GPU-b")},
                                                ROCATTACH_PLAN_RECORD_DISPATCHES);
    runner_.Arrived(poor);
    return poor;
  };
  const ProcessId lives = arrive(200);
  size_t most = 0;
  for (pid_t pid = 1000; pid < 6000; ++pid) {
    const ProcessId poor = arrive(pid);
    EXPECT_EQ(run->NewlyRefused().count(poor), 1u);
    backend_->End(poor);
    most = std::max(most, run->Refused().size());
  }
  EXPECT_GE(most, 100u) << "the last ones can be looked at";
  EXPECT_LE(most, 1100u);
  EXPECT_EQ(run->Refused().count(lives), 1u);
  EXPECT_TRUE(run->NewlyRefused().empty());
  ASSERT_TRUE(run->Stop().ok());
}

// A session of named processes does not get others.
TEST_F(TargetRunTest, ALaterProcessIsNotPartOfASessionOfOthers) {
  const auto run = NewRun(FilterSpec(), nullptr, {target_});
  ASSERT_TRUE(run->Start().ok());
  const ProcessId late = backend_->AddProcess(300, {MakeGpu(1, "GPU-a")});
  runner_.Arrived(late);
  EXPECT_EQ(backend_->process(late).starts, 0);
  ASSERT_TRUE(run->Stop().ok());
}

TEST_F(TargetRunTest, AnEndThatHasPassedStartsNothing) {
  const auto run = NewRun(FilterSpec());
  run->EndAt(1);
  const absl::Status started = run->Start();
  EXPECT_THAT(std::string(started.message()), HasSubstr("ended before"));
  ASSERT_TRUE(run->Stop().ok());
  EXPECT_EQ(backend_->process(target_).starts, 0);
}

}  // namespace
}  // namespace rocattach
