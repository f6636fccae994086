#include "userspace/record/sessions/target_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/unit/record/process_stream_fixture.h"
#include "tests/unit/record/target_fixture.h"
#include "userspace/session/compiled_plan.h"

namespace rocattach {
namespace {

constexpr uint64_t kNowNs = 9'000'000'000;

using TargetSessionTest = TargetTest;

// The collector lists its GPUs first, then names its backend. Both may happen after the
// dictionary was read and before the process is described.
TEST_F(TargetSessionTest, AProcessIsDescribedWithItsGpusOrNotYet) {
  FakeCollector fake;
  const std::unique_ptr<Target> target = NewTarget(Attached());
  Report(fake, target.get());
  target->Drain(kNowNs);
  EXPECT_FALSE(target->session()->Describe("").has_value());
  fake.AddGpu(1, "gfx90a", "GPU-0123456789abcdef");
  fake.control()->record_kinds = ROCATTACH_PLAN_RECORD_COUNTERS;
  __atomic_store_n(&fake.control()->backend, ROCATTACH_BACKEND_SDK, __ATOMIC_RELEASE);
  EXPECT_FALSE(target->session()->Describe("").has_value());
  target->Drain(kNowNs);
  const std::optional<TargetDescription> description = target->session()->Describe("");
  ASSERT_TRUE(description.has_value());
  EXPECT_EQ(description->record_kinds, ROCATTACH_PLAN_RECORD_COUNTERS);
  ASSERT_EQ(description->gpus.size(), 1u);
  EXPECT_EQ(description->gpus[0].agent_id, 1u);
  EXPECT_EQ(description->gpus[0].key, "GPU-0123456789abcdef");
}

struct EndsOnly : RecordSink {
  int ended = 0;
  void OnDispatches(ProcessId, absl::Span<const DispatchEvent>) override {}
  void OnCopies(ProcessId, absl::Span<const rocattach_copy>) override {}
  void OnApiCalls(ProcessId, absl::Span<const ApiEvent>) override {}
  void OnSamples(ProcessId, absl::Span<const SampleEvent>) override {}
  void OnTargetEnded(ProcessId) override { ++ended; }
};

class SessionOfAShortProcess : public ProcessStreamTest {
 protected:
  void StartSession() {
    auto plan = std::make_shared<CompiledPlan>();
    plan->image = std::make_unique<rocattach_plan>();
    session_->Start(std::move(plan), sink_, 42,
                    [this](absl::Status status) { started_ = std::move(status); });
    EXPECT_FALSE(started_.has_value());
  }

  const std::shared_ptr<EndsOnly> sink_ = std::make_shared<EndsOnly>();
  std::optional<absl::Status> started_;
};

// The collector has answered, and the process ended before the answer was read.
TEST_F(SessionOfAShortProcess, WasActiveIfTheCollectorHasAnswered) {
  StartSession();
  fake_.control()->plan_acked = fake_.plan()->generation;
  session_->Ended();
  ASSERT_TRUE(started_.has_value());
  EXPECT_TRUE(started_->ok()) << *started_;
  EXPECT_EQ(sink_->ended, 1);
  const auto events = Finish().sessions;
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].what(), v1::SessionEvent::STARTED);
  EXPECT_EQ(events[1].what(), v1::SessionEvent::STOPPED);
}

// Dispatches after the request do not count: they may be in the session.
TEST_F(SessionOfAShortProcess, KnowsHowManyDispatchesWereBefore) {
  const rocattach_dispatch dispatch = FakeCollector::Dispatch(1);
  for (int i = 0; i < 3; ++i) fake_.Publish(0, &dispatch);
  memory_->Snapshot();
  StartSession();
  fake_.Publish(1, &dispatch);
  EXPECT_EQ(session_->TakeDispatchesBefore(), 0u) << "it may not begin at all";
  fake_.control()->plan_acked = fake_.plan()->generation;
  session_->Poll(kNowNs);
  ASSERT_TRUE(started_.has_value());
  EXPECT_TRUE(started_->ok()) << *started_;
  EXPECT_EQ(session_->TakeDispatchesBefore(), 3u);
  EXPECT_EQ(session_->TakeDispatchesBefore(), 0u);
}

TEST_F(SessionOfAShortProcess, WasNotActiveWithoutAnAnswer) {
  StartSession();
  session_->Ended();
  ASSERT_TRUE(started_.has_value());
  EXPECT_TRUE(absl::IsNotFound(*started_)) << *started_;
  const auto events = Finish().sessions;
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what(), v1::SessionEvent::LOST);
}

}  // namespace
}  // namespace rocattach
