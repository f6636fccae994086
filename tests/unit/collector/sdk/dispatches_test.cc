// Dispatches as the SDK's services announce and complete them, in every order.
#include "userspace/collector/sdk/dispatches.h"

#include <gtest/gtest.h>
#include <string.h>

#include <memory>
#include <vector>

#include "tests/unit/collector/sdk/fake_sdk.h"

namespace rocattach::collector {
namespace {

class SdkDispatchesTest : public SdkFixture {
 protected:
  void SetUp() override {
    SdkFixture::SetUp();
    ASSERT_EQ(rings_.Init(&memory_), 0);
    ASSERT_EQ(dispatches_.Init(
                  &memory_, {&sdk_, &plans_, &agents_, &configs_, &dictionary_, &rings_,
                             &kernels_, &correlation_, &own_ns_, &other_dropped_,
                             gate_.get(), &streams_, &memory_.control()->sampling}),
              0);
    kernels_.Insert(5, 9);
  }
  void TearDown() override {
    rings_.Forget();
    SdkFixture::TearDown();
  }

  // Puts a plan with these passes in force.
  void Start(uint64_t generation, const std::vector<std::vector<uint64_t>>& passes) {
    auto image = std::make_unique<rocattach_plan>(Plan(generation, passes)->plan);
    image->magic = ROCATTACH_PLAN_MAGIC;
    image->version = ROCATTACH_PLAN_VERSION;
    image->bytes = sizeof(rocattach_plan);
    image->rotation = ROCATTACH_ROTATE_ITERATIONS;
    image->rotation_interval = 1;
    image->generation = generation;
    *memory_.plan() = *image;
    PlanResult result;
    const PlanState* state = plans_.Prepare(&result);
    ASSERT_NE(state, nullptr) << result.text;
    dispatches_.SetPasses(configs_.Build(*state, &result));
    ASSERT_TRUE(result.ok()) << result.text;
    plans_.Activate(state);
  }

  static rocattach_sdk_dispatch_info Info(uint64_t id) {
    rocattach_sdk_dispatch_info info = {};
    info.agent_id = {101};
    info.queue_id = {3};
    info.kernel_id = 5;
    info.dispatch_id = id;
    info.grid_size = {256, 1, 1};
    info.workgroup_size = {64, 1, 1};
    return info;
  }
  void Trace(uint64_t id, int operation, rocattach_sdk_user_data* data) {
    rocattach_sdk_callback_kernel_dispatch payload = {
        sizeof(payload), operation == ROCATTACH_SDK_DISPATCH_COMPLETE ? 1000u : 0u,
        2000, Info(id)};
    rocattach_sdk_callback_record record = {};
    record.operation = operation;
    record.phase = operation == ROCATTACH_SDK_DISPATCH_COMPLETE
                       ? ROCATTACH_SDK_PHASE_NONE
                       : ROCATTACH_SDK_PHASE_ENTER;
    record.payload = &payload;
    dispatches_.OnTrace(record, data);
  }
  void Announce(uint64_t id) {
    Trace(id, ROCATTACH_SDK_DISPATCH_ENQUEUE, &traced_[id]);
  }
  void Complete(uint64_t id) {
    Trace(id, ROCATTACH_SDK_DISPATCH_COMPLETE, &traced_[id]);
  }
  // Returns the config that the collector chose; 0: not counted.
  uint64_t Count(uint64_t id) {
    rocattach_sdk_dispatch_data data = {};
    data.dispatch_info = Info(id);
    rocattach_sdk_counter_config_id config = {0};
    dispatches_.OnEnqueue(data, &config, &counted_[id]);
    return config.handle;
  }
  void Values(uint64_t id, const std::vector<uint64_t>& instances) {
    rocattach_sdk_dispatch_data data = {};
    data.start_timestamp = 1000;
    data.end_timestamp = 2000;
    data.dispatch_info = Info(id);
    std::vector<rocattach_sdk_counter_record> records;
    for (uint64_t instance : instances) {
      records.push_back({instance, static_cast<double>(instance), id, {}, {101}});
    }
    dispatches_.OnValues(data, records.data(), records.size(), counted_[id]);
  }
  std::vector<rocattach_dispatch> Records() const {
    return RecordsIn<rocattach_dispatch>(memory_, 0);
  }
  const rocattach_ring& ring() const { return *memory_.ring(0); }

  RingSet rings_;
  KernelTable kernels_;
  SdkDispatches dispatches_;
  SdkStreams streams_;
  std::unique_ptr<RingGate> gate_ = std::make_unique<RingGate>();
  uint64_t correlation_ = 1, own_ns_ = 0, other_dropped_ = 0;
  std::map<uint64_t, rocattach_sdk_user_data> traced_, counted_;
};

// One record, followed by its values, whichever service comes first or last.
TEST_F(SdkDispatchesTest, OneRecordInEveryOrderOfTheServices) {
  Start(2, {{1, 2, 3}});
  dispatches_.SetBaseline(true);
  for (uint64_t order = 0; order < 4; ++order) {
    const uint64_t id = order + 1;
    if (order % 2 == 0) Announce(id);
    ASSERT_NE(Count(id), 0u);
    if (order % 2 == 1) Announce(id);
    if (order / 2 == 0) Complete(id);
    Values(id, {1001, 2001, 3001});
    if (order / 2 == 1) Complete(id);
  }
  auto records = Records();
  ASSERT_EQ(records.size(), 4u * 3);
  for (uint64_t i = 0; i < 4; ++i) {
    const rocattach_dispatch& d = records[3 * i];
    EXPECT_EQ(d.kind, ROCATTACH_RECORD_DISPATCH);
    EXPECT_EQ(d.dispatch_id, i + 1);
    EXPECT_EQ(d.kernel_id, 9u);
    EXPECT_EQ(d.iteration, i + 1);
    EXPECT_EQ(d.start_ns, 1000u);
    EXPECT_EQ(d.flags & 0x1ff, ROCATTACH_DISPATCH_COUNTED |
                                   ROCATTACH_DISPATCH_BASELINE |
                                   ROCATTACH_DISPATCH_FOR_COUNTERS);
    EXPECT_EQ(records[3 * i + 1].kind, ROCATTACH_RECORD_VALUES);
    EXPECT_EQ(records[3 * i + 2].kind, ROCATTACH_RECORD_VALUES);
  }
  EXPECT_EQ(ring().dispatches_seen, 4u);
  EXPECT_EQ(ring().counted_seen, 4u);
  EXPECT_EQ(ring().inflight, 0);
  EXPECT_EQ(ring().values_dropped, 0u);
}

TEST_F(SdkDispatchesTest, TracedOnlyAndWithoutUserData) {
  dispatches_.SetBaseline(true);
  Announce(1);
  EXPECT_EQ(ring().inflight, 1);
  EXPECT_EQ(memory_.inflight(0)->kind, ROCATTACH_RECORD_DISPATCH);
  // The SDK does not keep the user data from the enqueue to the end.
  traced_[1].value = 0;
  Complete(1);
  auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].flags, ROCATTACH_DISPATCH_BASELINE);
  EXPECT_EQ(memory_.inflight(0)->kind, ROCATTACH_RECORD_NONE);
  // A second completion changes nothing.
  Complete(1);
  EXPECT_EQ(Records().size(), 1u);
  EXPECT_EQ(ring().inflight, 0);
}

TEST_F(SdkDispatchesTest, DispatchesThatNoPlanWantsAreNotKept) {
  Announce(1);
  EXPECT_EQ(gate_->Unfinished(), 1u) << "but it is known that it is in flight";
  EXPECT_EQ(Count(1), 0u);
  Complete(1);
  EXPECT_EQ(gate_->Unfinished(), 0u);
  EXPECT_TRUE(Records().empty());
  EXPECT_EQ(ring().dispatches_seen, 0u);
}

TEST_F(SdkDispatchesTest, PassesAreMultiplexed) {
  Start(2, {{1}, {2}, {3, 4}});
  std::vector<uint64_t> configs;
  for (uint64_t id = 1; id <= 6; ++id) configs.push_back(Count(id));
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(configs[i], configs[i + 3]);
  EXPECT_NE(configs[0], configs[1]);
  EXPECT_EQ(fake_.configs[configs[2]], (std::vector<uint64_t>{3, 4}));
}

// A group is recorded whole or not at all, and counted.
TEST_F(SdkDispatchesTest, AFullRingDropsTheWholeGroup) {
  Start(2, {{1, 2, 3}});
  for (uint64_t id = 1; id <= 30; ++id) {
    ASSERT_NE(Count(id), 0u);
    Values(id, {1001, 2001, 3001});
  }
  // 64 slots, 3 for each group.
  EXPECT_EQ(ring().head, 63u);
  EXPECT_EQ(ring().dropped, 9u);
  EXPECT_EQ(ring().dispatches_dropped, 9u);
  EXPECT_EQ(ring().counted_dropped, 9u);
  EXPECT_EQ(ring().dispatches_seen, 30u);
  EXPECT_EQ(ring().inflight, 0);
}

TEST_F(SdkDispatchesTest, AFullTableDropsAndCounts) {
  Start(2, {{1}});
  const uint32_t room = memory_.geometry().inflight_count;
  for (uint64_t id = 1; id <= room; ++id) EXPECT_NE(Count(id), 0u);
  EXPECT_EQ(Count(room + 1), 0u);
  EXPECT_EQ(other_dropped_, 1u) << "not for want of room in a ring";
  Values(1, {1001});
  EXPECT_NE(Count(room + 2), 0u);
  EXPECT_EQ(ring().dispatches_seen, room + 2);
}

// A long kernel is counted by the plan that was in force at its dispatch, whatever
// comes in the meantime.
TEST_F(SdkDispatchesTest, ValuesOutliveTheirPlan) {
  Start(2, {{1, 2}});
  ASSERT_NE(Count(1), 0u);
  uint64_t generation = 4;
  // Enough sets of counters that earlier configs are destroyed.
  for (uint64_t i = 1; i <= 300; ++i, generation += 2) Start(generation, {{i, 400}});
  ASSERT_NE(Count(2), 0u);
  for (uint64_t i = 0; i < 20; ++i, generation += 2) Start(generation, {{4}});
  Values(2, {300001, 400002});
  Values(1, {1001, 2001});
  auto records = Records();
  ASSERT_EQ(records.size(), 4u);
  for (size_t i : {0, 2}) {
    EXPECT_TRUE(records[i].flags & ROCATTACH_DISPATCH_COUNTED);
    EXPECT_EQ(records[i + 1].kind, ROCATTACH_RECORD_VALUES);
  }
  rocattach_values values;
  memcpy(&values, &records[3], sizeof(values));
  EXPECT_EQ(values.plan_generation, 2u);
  EXPECT_EQ(values.count, 2u);
  EXPECT_EQ(values.value[1].sum, 2001);
  EXPECT_EQ(ring().values_dropped, 0u);
}

// Each dispatch keeps a plan. One more is refused, with a text, until one has finished.
TEST_F(SdkDispatchesTest, DispatchesThatHoldEveryPlan) {
  uint64_t id = 1;
  for (; id <= 61; ++id) {
    Start(2 * id, {{1}});
    ASSERT_NE(Count(id), 0u);
  }
  for (; id <= 64; ++id) Start(2 * id, {{1}});
  ASSERT_NE(Count(id), 0u);
  memory_.plan()->generation = 2 * id;
  PlanResult result;
  // The three newest plans are kept for threads that may be reading them now.
  EXPECT_EQ(plans_.Prepare(&result), nullptr);
  EXPECT_EQ(result.error, ROCATTACH_PLAN_ERROR_NO_MEMORY);
  EXPECT_NE(strstr(result.text, "61 earlier plans"), nullptr) << result.text;
  Values(7, {1001});
  Start(2 * id, {{1}});
  EXPECT_EQ(ring().values_dropped, 0u);
}

TEST_F(SdkDispatchesTest, DispatchesInFlightAtTheEndAreUnfinished) {
  Start(2, {{1}});
  ASSERT_NE(Count(1), 0u);
  dispatches_.PublishRest();
  Values(1, {1001});  // too late
  auto records = Records();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(records[0].flags & ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_EQ(ring().inflight, 0);
}

}  // namespace
}  // namespace rocattach::collector
