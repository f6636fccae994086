// Counter values of dispatches and of samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <vector>

#include "tests/unit/record/session_records_fixture.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using SessionValuesTest = SessionRecordsTest;

// A slot with instances of these counters, at position 1, 2 and so on.
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

TEST_F(SessionValuesTest, ADispatchWaitsForItsValues) {
  EXPECT_TRUE(ConsumeCounted(1));
  Consume(Values(1, 0));
  EXPECT_THAT(Delivered(), IsEmpty());
  Consume(Values(1, 1));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_counters);
  EXPECT_EQ(Delivered()[0].record.correlation_id, 1u);
  EXPECT_THAT(Delivered()[0].sums, ElementsAre(10, 20, 30));
  EXPECT_EQ(counts().counted, 1u);
  EXPECT_EQ(counts().counted_invalid, 0u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.counters.size(), 3u);
  for (uint16_t i = 0; i < 3; ++i) {
    const CounterRecord& record = written.counters[i];
    EXPECT_EQ(record.session, kSession);
    EXPECT_EQ(record.plan, kPlanId);
    EXPECT_EQ(record.operation, 1u);
    EXPECT_EQ(record.kernel_id, 1u);
    EXPECT_EQ(record.agent_id, kAgent);
    EXPECT_EQ(record.counter, i);
    EXPECT_EQ(record.instances, 4u);
    EXPECT_EQ(record.sum, 10 * (i + 1));
    EXPECT_EQ(record.minimum, 1);
    EXPECT_EQ(record.maximum, 9);
  }
}

TEST_F(SessionValuesTest, ValuesBelongToTheirRing) {
  ConsumeCounted(1, 0);
  ConsumeCounted(2, 5);
  Consume(Values(1, 0), 0);
  ConsumeValuesOf(2, 5);
  Consume(Values(1, 1), 0);
  ASSERT_EQ(Delivered().size(), 2u);
  EXPECT_EQ(Delivered()[0].record.correlation_id, 2u);
  EXPECT_EQ(Delivered()[1].record.correlation_id, 1u);
  EXPECT_EQ(counts().counted, 2u);
}

TEST_F(SessionValuesTest, ValuesBelongToTheirPass) {
  ConsumeCounted(1);
  rocattach_values values = Values(1, 0);
  values.pass = 1;
  values.slots = 1;
  values.count = 1;
  Consume(values);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Delivered()[0].pass, 1u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.counters.size(), 1u);
  EXPECT_EQ(written.counters[0].pass, 1u);
}

// Values that the plan did not ask for are not believed, whatever the target writes.
TEST_F(SessionValuesTest, ValuesThatThePlanCannotHaveAreInvalid) {
  const std::vector<std::function<void(rocattach_values*)>> changes = {
      [](auto* v) { v->correlation_id = 2; },
      [](auto* v) { v->agent_id = 2; },
      [](auto* v) { v->plan_generation += 2; },
      [](auto* v) { v->slot = 1; },
      [](auto* v) { v->slots = 0; },
      [](auto* v) { v->slots = 4; },
      [](auto* v) { v->count = 0; },
      [](auto* v) { v->count = ROCATTACH_VALUES_PER_SLOT + 1; },
      [](auto* v) { v->of = ROCATTACH_RECORD_SAMPLE; },
      [](auto* v) { v->pass = 2; },
      [](auto* v) { v->value[1].counter = 3; },
      [](auto* v) { v->value[1].instances = 0; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    ConsumeCounted(1);
    rocattach_values values = Values(1, 0);
    changes[i](&values);
    Consume(values);
    EXPECT_EQ(counts().counted_invalid, i + 1) << i;
    // Counted once, however many slots follow.
    Consume(Values(1, 1));
    EXPECT_EQ(counts().counted_invalid, i + 1) << i;
  }
  EXPECT_THAT(Delivered(), IsEmpty());
  EXPECT_EQ(counts().counted, 0u);
}

TEST_F(SessionValuesTest, ValuesMustNotChangeFromSlotToSlot) {
  ConsumeCounted(1);
  Consume(Values(1, 0));
  rocattach_values values = Values(1, 1);
  values.slots = 3;
  Consume(values);
  EXPECT_EQ(counts().counted_invalid, 1u);
  ConsumeCounted(2);
  Consume(Values(2, 0));
  values = Values(2, 1);
  values.pass = 1;
  Consume(values);
  EXPECT_EQ(counts().counted_invalid, 2u);
  ConsumeCounted(3);
  Consume(Values(3, 0));
  Consume(Values(3, 0));
  EXPECT_EQ(counts().counted_invalid, 3u);
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionValuesTest, InterruptedValuesAreInvalid) {
  ConsumeCounted(1);
  Consume(Values(1, 0));
  ConsumeCounted(2);
  Consume(Values(1, 1));
  EXPECT_EQ(counts().counted_invalid, 2u);
  // Values that are incomplete at the end are invalid, too.
  ConsumeCounted(3, 1);
  records_->End();
  EXPECT_EQ(counts().counted_invalid, 3u);
  EXPECT_EQ(counts().counted, 0u);
  EXPECT_THAT(Delivered(), IsEmpty());
}

constexpr uint16_t kCountedFlags =
    ROCATTACH_DISPATCH_COUNTED | ROCATTACH_DISPATCH_FOR_COUNTERS;

// Values that are drained at once are consumed at once, with the same result as slot by
// slot.
TEST_F(SessionValuesTest, AllValuesAtOnce) {
  const std::vector<RecordSlot> slots = {SlotOf(Values(2, 0)), SlotOf(Values(2, 1)),
                                         SlotOf(Sample(1))};
  rocattach_dispatch second = Dispatch(2, kCountedFlags | ROCATTACH_DISPATCH_UNTIMED);
  EXPECT_EQ(records_->ConsumeCounted(0, &second, slots), 0u) << "it is the first one";
  ConsumeCounted(1);
  ConsumeValuesOf(1);
  EXPECT_EQ(records_->ConsumeCounted(0, &second, slots), 2u);
  EXPECT_EQ(second.flags, ROCATTACH_DISPATCH_UNTIMED);
  ASSERT_EQ(Delivered().size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_THAT(Delivered()[i].sums, ElementsAre(10, 20, 30));
    EXPECT_TRUE(Delivered()[i].for_counters);
    EXPECT_FALSE(Delivered()[i].for_timestamps);
  }
  EXPECT_EQ(counts().counted, 2u);
  EXPECT_EQ(counts().counted_invalid, 0u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.counters.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(written.counters[i].operation, 1u);
    EXPECT_EQ(written.counters[3 + i].operation, 2u);
    EXPECT_EQ(written.counters[i].counter, written.counters[3 + i].counter);
    EXPECT_EQ(written.counters[i].sum, written.counters[3 + i].sum);
    EXPECT_EQ(written.counters[i].pass, written.counters[3 + i].pass);
    EXPECT_EQ(written.counters[i].kernel_id, written.counters[3 + i].kernel_id);
  }
}

TEST_F(SessionValuesTest, IncorrectValuesAreNotConsumedWithTheirDispatch) {
  ConsumeCounted(1);
  ConsumeValuesOf(1);
  const auto consumed = [&](rocattach_dispatch dispatch, const rocattach_values& first,
                            const rocattach_values& second, uint32_t ring = 0) {
    const rocattach_dispatch before = dispatch;
    const size_t slots =
        records_->ConsumeCounted(ring, &dispatch, {SlotOf(first), SlotOf(second)});
    EXPECT_TRUE(slots != 0 || memcmp(&before, &dispatch, sizeof(before)) == 0);
    return slots;
  };
  using Change = void (*)(rocattach_values*);
  const Change kChanges[] = {
      [](rocattach_values* v) { ++v->kind; },
      [](rocattach_values* v) { ++v->slots; },
      [](rocattach_values* v) { ++v->slot; },
      [](rocattach_values* v) { v->count = 0; },
      [](rocattach_values* v) { v->count = 3; },
      [](rocattach_values* v) { ++v->correlation_id; },
      [](rocattach_values* v) { v->plan_generation += 2; },
      [](rocattach_values* v) { v->pass += 100; },
      [](rocattach_values* v) { ++v->agent_id; },
      [](rocattach_values* v) { v->of = ROCATTACH_RECORD_SAMPLE; },
      [](rocattach_values* v) { v->instance_slots = 1; },
      [](rocattach_values* v) { v->value[0].counter = 3; },
      [](rocattach_values* v) { v->value[0].counter = 60000; },
      [](rocattach_values* v) { v->value[0].instances = 0; },
  };
  const rocattach_dispatch dispatch = Dispatch(2, kCountedFlags);
  const rocattach_values values[2] = {Values(2, 0), Values(2, 1)};
  for (const Change change : kChanges) {
    for (const size_t changed : {0, 1}) {
      rocattach_values wrong[2] = {values[0], values[1]};
      change(&wrong[changed]);
      EXPECT_EQ(consumed(dispatch, wrong[0], wrong[1]), 0u) << (&change - kChanges);
    }
  }
  for (const uint16_t flags :
       {ROCATTACH_DISPATCH_COUNTED, ROCATTACH_DISPATCH_FOR_COUNTERS,
        kCountedFlags | ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED,
        kCountedFlags | ROCATTACH_DISPATCH_SELECTED_UNDECIDED}) {
    EXPECT_EQ(consumed(Dispatch(2, flags), values[0], values[1]), 0u) << flags;
  }
  rocattach_dispatch other_plan = dispatch;
  other_plan.flags = static_cast<uint16_t>(kCountedFlags | TagOf(kGeneration + 2));
  EXPECT_EQ(consumed(other_plan, values[0], values[1]), 0u);
  rocattach_dispatch other_gpu = dispatch;
  ++other_gpu.agent_id;
  EXPECT_EQ(consumed(other_gpu, values[0], values[1]), 0u);
  // Cut off by the end of the drained records.
  rocattach_dispatch cut = dispatch;
  EXPECT_EQ(records_->ConsumeCounted(0, &cut, {SlotOf(values[0])}), 0u);
  EXPECT_EQ(records_->ConsumeCounted(0, &cut, {}), 0u);
  // While another dispatch of the ring waits for its values.
  ConsumeCounted(3, 1);
  EXPECT_EQ(consumed(dispatch, values[0], values[1], 1), 0u);
  // The unchanged values are consumed.
  EXPECT_EQ(consumed(dispatch, values[0], values[1]), 2u);
  EXPECT_EQ(Delivered().size(), 2u);
}

// In another plan, counter numbers and passes may have another meaning.
TEST_F(SessionValuesTest, AnotherPlansValuesAreLookedAtAgain) {
  ConsumeCounted(1);
  ConsumeValuesOf(1);
  AddPlan(kGeneration + 2, sink_);
  rocattach_dispatch dispatch = Dispatch(2, kCountedFlags);
  dispatch.flags = static_cast<uint16_t>(kCountedFlags | TagOf(kGeneration + 2));
  rocattach_values values[2] = {Values(2, 0), Values(2, 1)};
  for (rocattach_values& slot : values) slot.plan_generation = kGeneration + 2;
  EXPECT_EQ(
      records_->ConsumeCounted(0, &dispatch, {SlotOf(values[0]), SlotOf(values[1])}),
      0u);
  EXPECT_TRUE(Consume(dispatch));
  for (const rocattach_values& slot : values) Consume(slot);
  EXPECT_EQ(
      records_->ConsumeCounted(0, &dispatch, {SlotOf(values[0]), SlotOf(values[1])}),
      2u);
  EXPECT_EQ(counts().counted, 3u);
}

// A session that is only recorded has no reader of its dispatches.
TEST_F(SessionValuesTest, DispatchesWithoutAReaderAreCounted) {
  struct Unread : KeepingSink {
    bool ReadsDispatches() const override { return false; }
    void CountDispatches(uint64_t for_timestamps, uint64_t for_counters) override {
      timestamps += for_timestamps;
      counters += for_counters;
    }
    uint64_t timestamps = 0, counters = 0;
  };
  auto unread = std::make_shared<Unread>();
  AddPlan(kGeneration, unread);
  ConsumeCounted(1);
  ConsumeValuesOf(1);
  Consume(Dispatch(2, ROCATTACH_DISPATCH_SELECTED));
  EXPECT_EQ(Finish().counters.size(), 3u) << "but they are recorded";
  EXPECT_EQ(unread->counters, 1u);
  EXPECT_EQ(unread->timestamps, 1u);
  EXPECT_THAT(unread->dispatches, IsEmpty());
}

TEST_F(SessionValuesTest, NothingIsLeftOfInterruptedValues) {
  ConsumeCounted(1);
  Consume(Values(1, 0));
  ConsumeCounted(2);
  ConsumeValuesOf(2);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_THAT(Delivered()[0].sums, ElementsAre(10, 20, 30));
  ConsumeCounted(3);
  Consume(Values(3, 0));
  Consume(Sample(1));
  ASSERT_EQ(sink_->samples.size(), 1u);
  EXPECT_THAT(sink_->samples[0].sums, ElementsAre(10, 20));
  EXPECT_EQ(counts().counted_invalid, 2u);
  EXPECT_EQ(counts().counted, 1u);
}

// The target counted a kernel that it could not decide about.
TEST_F(SessionValuesTest, ValuesThatTheFilterDidNotWantAreLeftOut) {
  constexpr uint16_t kCounted = ROCATTACH_DISPATCH_COUNTED |
                                ROCATTACH_DISPATCH_FOR_COUNTERS |
                                ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;
  EXPECT_FALSE(Consume(Dispatch(1, kCounted, 2)));
  ConsumeValuesOf(1);
  EXPECT_THAT(Delivered(), IsEmpty());
  EXPECT_EQ(counts().counted_filtered, 1u);
  EXPECT_EQ(counts().filtered, 1u);
  // Another filter of the session wants its times.
  EXPECT_TRUE(Consume(Dispatch(2, kCounted | ROCATTACH_DISPATCH_SELECTED, 2)));
  ConsumeValuesOf(2);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_timestamps);
  EXPECT_FALSE(Delivered()[0].for_counters);
  EXPECT_EQ(counts().counted_filtered, 2u);
  EXPECT_EQ(counts().filtered, 1u);
  EXPECT_EQ(counts().counted, 0u);
  EXPECT_THAT(Finish().counters, IsEmpty());
}

TEST_F(SessionValuesTest, ASampleComesWithItsValues) {
  Consume(Sample(3));
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

TEST_F(SessionValuesTest, ASampleThatMakesNoSenseIsInvalid) {
  const std::vector<std::function<void(rocattach_sample*)>> changes = {
      [](auto* s) { s->plan_generation += 2; },
      [](auto* s) { s->slots = 0; },
      [](auto* s) { s->end_ns = s->begin_ns - 1; },
      [](auto* s) { s->agent_id = 2; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    rocattach_sample sample = Sample(i + 1);
    changes[i](&sample);
    Consume(sample);
    EXPECT_EQ(counts().samples_invalid, i + 1) << i;
  }
  EXPECT_THAT(sink_->samples, IsEmpty());
  EXPECT_EQ(counts().samples, 0u);
}

TEST_F(SessionValuesTest, InstancesAreThoseOfTheirCountersInAnyOrder) {
  ConsumeCounted(1);
  for (const uint16_t slot : {0, 1}) {
    rocattach_values values = Values(1, slot);
    values.instance_slots = 2;
    Consume(values);
  }
  EXPECT_THAT(Delivered(), IsEmpty()) << "its instances follow";
  records_->ConsumeInstances(0, SlotOf(InstancesOf(1, 0, {2, 2, 0, 0, 0})));
  records_->ConsumeInstances(0, SlotOf(InstancesOf(1, 1, {0, 9})));
  EXPECT_EQ(Delivered().size(), 1u);
  ConsumeCounted(2);
  ConsumeValuesOf(2);
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

TEST_F(SessionValuesTest, InstancesThatMakeNoSenseMakeTheirDispatchInvalid) {
  const auto begin = [&](uint64_t operation, uint16_t instance_slots) {
    ConsumeCounted(operation);
    for (const uint16_t slot : {0, 1}) {
      rocattach_values values = Values(operation, slot);
      values.instance_slots = instance_slots;
      Consume(values);
    }
  };
  begin(1, 1);
  records_->ConsumeInstances(0, SlotOf(InstancesOf(1, 1, {0})));  // not slot 0
  begin(2, 1);
  records_->ConsumeInstances(0, SlotOf(InstancesOf(1, 0, {0})));  // dispatch 1's
  begin(3, 1);
  records_->ConsumeInstances(0, SlotOf(InstancesOf(3, 0, {})));
  begin(4, 1);
  rocattach_instances many = InstancesOf(4, 0, {0});
  many.count = ROCATTACH_INSTANCES_PER_SLOT + 1;
  records_->ConsumeInstances(0, SlotOf(many));
  begin(5, ROCATTACH_MAX_INSTANCE_SLOTS + 1);
  begin(6, 2);  // only one slot comes
  records_->ConsumeInstances(0, SlotOf(InstancesOf(6, 0, {0})));
  const WrittenRecords written = Finish();
  EXPECT_EQ(counts().counted_invalid, 6u);
  EXPECT_THAT(written.counters, IsEmpty());
  EXPECT_THAT(Delivered(), IsEmpty());
}

// They would only take memory: the plan did not ask for them.
TEST_F(SessionValuesTest, InstancesThatWereNotAskedForAreInvalid) {
  AddPlan(kGeneration + 2, sink_, /*instances=*/false);
  rocattach_dispatch dispatch =
      Dispatch(1, ROCATTACH_DISPATCH_COUNTED | ROCATTACH_DISPATCH_FOR_COUNTERS);
  for (const uint16_t instance_slots : {1, 0}) {
    dispatch.correlation_id = 1u + instance_slots;
    dispatch.flags =
        static_cast<uint16_t>((dispatch.flags & ~TagOf(~0u)) | TagOf(kGeneration + 2));
    Consume(dispatch);
    for (const uint16_t slot : {0, 1}) {
      rocattach_values values = Values(dispatch.correlation_id, slot);
      values.plan_generation = kGeneration + 2;
      values.instance_slots = instance_slots;
      Consume(values);
    }
  }
  const WrittenRecords written = Finish();
  EXPECT_EQ(counts().counted_invalid, 1u);
  EXPECT_EQ(written.counters.size(), 3u);
}

// A process that begins an operation in each of its rings, and completes none.
TEST_F(SessionValuesTest, IncompleteOperationsOfAProcessAreLimited) {
  constexpr uint32_t kRings = 64;
  for (uint32_t ring = 0; ring < kRings; ++ring) {
    ConsumeCounted(ring + 1, ring);
    for (const uint16_t slot : {0, 1}) {
      rocattach_values values = Values(ring + 1, slot);
      values.instance_slots = ROCATTACH_MAX_INSTANCE_SLOTS;
      Consume(values, ring);
    }
    for (uint16_t slot = 0; slot + 1u < ROCATTACH_MAX_INSTANCE_SLOTS; ++slot) {
      records_->ConsumeInstances(ring,
                                 SlotOf(InstancesOf(ring + 1, slot, {0, 1, 2, 0, 1})));
    }
  }
  // Four may be incomplete; there is room again when they have ended.
  EXPECT_EQ(counts().counted_invalid, kRings - 4);
  for (uint32_t ring = 0; ring < kRings; ++ring) records_->EndValues(ring);
  EXPECT_EQ(counts().counted_invalid, kRings);
  ConsumeCounted(100);
  for (const uint16_t slot : {0, 1}) {
    rocattach_values values = Values(100, slot);
    values.instance_slots = 1;
    Consume(values);
  }
  records_->ConsumeInstances(0, SlotOf(InstancesOf(100, 0, {0})));
  EXPECT_EQ(counts().counted, 1u);
}

TEST_F(SessionValuesTest, InstancesFollowASampleToo) {
  rocattach_sample sample = Sample(3);
  records_->ConsumeSample(0, SlotOf(sample));
  rocattach_values values = Values(3, 0);
  values.slots = 1;
  values.of = ROCATTACH_RECORD_SAMPLE;
  values.instance_slots = 1;
  Consume(values);
  EXPECT_THAT(sink_->samples, IsEmpty()) << "its instances follow";
  records_->ConsumeInstances(0, SlotOf(InstancesOf(3, 0, {0, 0, 1})));
  EXPECT_EQ(sink_->samples.size(), 1u);
  Consume(Sample(4));
  // Instances of another operation, and instances while no sample waits for any.
  records_->ConsumeSample(0, SlotOf(Sample(5)));
  values.correlation_id = 5;
  Consume(values);
  records_->ConsumeInstances(0, SlotOf(InstancesOf(3, 0, {0})));
  records_->ConsumeInstances(0, SlotOf(InstancesOf(5, 0, {0})));
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
