#include "userspace/record/target_session.h"

#include <gtest/gtest.h>

#include <memory>
#include <optional>

#include "tests/unit/record/target_fixture.h"

namespace rocattach {
namespace {

constexpr uint64_t kNowNs = 9'000'000'000;

using TargetSessionTest = TargetTest;

// The collector lists its GPUs first, then names its backend. Both may come between the
// look at the dictionary and the question what there is.
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

}  // namespace
}  // namespace rocattach
