// Samples of whole GPUs, and values of single instances.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <functional>
#include <vector>

#include "tests/unit/record/session_records_fixture.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST_F(SessionRecordsTest, ASampleComesWithItsValues) {
  Take(Sample(3));
  ASSERT_EQ(sink_->samples.size(), 1u);
  EXPECT_EQ(sink_->samples[0].agent_id, kAgent);
  EXPECT_EQ(sink_->samples[0].begin_ns, 1000u);
  EXPECT_EQ(sink_->samples[0].end_ns, 2000u);
  EXPECT_THAT(sink_->samples[0].sums, ElementsAre(10, 20));
  EXPECT_EQ(counts().samples, 1u);
  EXPECT_EQ(counts().samples_invalid, 0u);
  const WrittenRecords written = Finish();
  EXPECT_THAT(written.counters, IsEmpty());
  ASSERT_EQ(written.samples.size(), 2u);
  EXPECT_EQ(written.samples[1].session, kSession);
  EXPECT_EQ(written.samples[1].operation, 3u);
  EXPECT_EQ(written.samples[1].counter, 1u);
  EXPECT_EQ(written.samples[1].begin_ns, 1000u);
  EXPECT_EQ(written.samples[1].end_ns, 2000u);
}

TEST_F(SessionRecordsTest, ASampleThatMakesNoSenseIsInvalid) {
  const std::vector<std::function<void(rocattach_sample*)>> changes = {
      [](auto* s) { s->plan_generation += 2; },
      [](auto* s) { s->slots = 0; },
      [](auto* s) { s->end_ns = s->begin_ns - 1; },
      [](auto* s) { s->agent_id = 2; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    rocattach_sample sample = Sample(i + 1);
    changes[i](&sample);
    Take(sample);
    EXPECT_EQ(counts().samples_invalid, i + 1) << i;
  }
  EXPECT_THAT(sink_->samples, IsEmpty());
  EXPECT_EQ(counts().samples, 0u);
}

// A slot of instances of these counters, at position 1, 2 and so on.
rocattach_instances InstancesOf(uint64_t operation, uint16_t slot,
                                const std::vector<uint64_t>& counters) {
  rocattach_instances instances = {};
  instances.kind = ROCATTACH_RECORD_INSTANCES;
  instances.slot = slot;
  instances.correlation_id = operation;
  for (const uint64_t counter : counters) {
    instances.value[instances.count] = {
        counter << ROCATTACH_INSTANCE_COUNTER_SHIFT | (instances.count + 1u),
        static_cast<double>(100 * counter + instances.count)};
    ++instances.count;
  }
  return instances;
}

TEST_F(SessionRecordsTest, InstancesAreThoseOfTheirCountersInAnyOrder) {
  TakeCounted(1);
  for (const uint16_t slot : {0, 1}) {
    rocattach_values values = Values(1, slot);
    values.instance_slots = 2;
    Take(values);
  }
  EXPECT_THAT(sink_->dispatches, IsEmpty()) << "its instances follow";
  records_->TakeInstances(0, SlotOf(InstancesOf(1, 0, {2, 2, 0, 0, 0})));
  records_->TakeInstances(0, SlotOf(InstancesOf(1, 1, {0, 9})));
  EXPECT_EQ(sink_->dispatches.size(), 1u);
  TakeCounted(2);
  TakeValuesOf(2);
  const WrittenRecords written = Finish();
  EXPECT_EQ(counts().counted_invalid, 0u);
  ASSERT_EQ(written.counters.size(), 6u);
  ASSERT_NE(written.counters[0].each, nullptr);
  EXPECT_THAT(*written.counters[0].each,
              ElementsAre(CounterInstance{3, 2}, CounterInstance{4, 3},
                          CounterInstance{5, 4}, CounterInstance{1, 0}));
  EXPECT_EQ(written.counters[1].each, nullptr);
  EXPECT_THAT(*written.counters[2].each,
              ElementsAre(CounterInstance{1, 200}, CounterInstance{2, 201}));
  for (size_t i = 3; i < 6; ++i) EXPECT_EQ(written.counters[i].each, nullptr);
}

TEST_F(SessionRecordsTest, InstancesThatMakeNoSenseMakeTheirDispatchInvalid) {
  const auto begin = [&](uint64_t operation, uint16_t instance_slots) {
    TakeCounted(operation);
    for (const uint16_t slot : {0, 1}) {
      rocattach_values values = Values(operation, slot);
      values.instance_slots = instance_slots;
      Take(values);
    }
  };
  begin(1, 1);
  records_->TakeInstances(0, SlotOf(InstancesOf(1, 1, {0})));  // not the first
  begin(2, 1);
  records_->TakeInstances(0, SlotOf(InstancesOf(1, 0, {0})));  // of another
  begin(3, 1);
  records_->TakeInstances(0, SlotOf(InstancesOf(3, 0, {})));
  begin(4, 1);
  rocattach_instances many = InstancesOf(4, 0, {0});
  many.count = ROCATTACH_INSTANCES_PER_SLOT + 1;
  records_->TakeInstances(0, SlotOf(many));
  begin(5, ROCATTACH_MAX_INSTANCE_SLOTS + 1);
  begin(6, 2);  // only one comes
  records_->TakeInstances(0, SlotOf(InstancesOf(6, 0, {0})));
  const WrittenRecords written = Finish();
  EXPECT_EQ(counts().counted_invalid, 6u);
  EXPECT_THAT(written.counters, IsEmpty());
  EXPECT_THAT(sink_->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, InstancesFollowASampleToo) {
  rocattach_sample sample = Sample(3);
  records_->TakeSample(0, SlotOf(sample));
  rocattach_values values = Values(3, 0);
  values.slots = 1;
  values.of = ROCATTACH_RECORD_SAMPLE;
  values.instance_slots = 1;
  Take(values);
  EXPECT_THAT(sink_->samples, IsEmpty()) << "its instances follow";
  records_->TakeInstances(0, SlotOf(InstancesOf(3, 0, {0, 0, 1})));
  EXPECT_EQ(sink_->samples.size(), 1u);
  Take(Sample(4));
  // Of a dispatch of the same number, and of no sample at all.
  records_->TakeSample(0, SlotOf(Sample(5)));
  values.correlation_id = 5;
  Take(values);
  records_->TakeInstances(0, SlotOf(InstancesOf(3, 0, {0})));
  records_->TakeInstances(0, SlotOf(InstancesOf(5, 0, {0})));
  const WrittenRecords written = Finish();
  EXPECT_EQ(counts().samples, 2u);
  EXPECT_EQ(counts().samples_invalid, 1u);
  ASSERT_EQ(written.samples.size(), 4u);
  ASSERT_NE(written.samples[0].each, nullptr);
  EXPECT_EQ(written.samples[0].each->size(), 2u);
  EXPECT_EQ(written.samples[1].each->size(), 1u);
  EXPECT_EQ(written.samples[2].each, nullptr) << "without, sums are all there is";
}

}  // namespace
}  // namespace rocattach
