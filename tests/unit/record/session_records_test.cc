#include "userspace/record/session_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/temporary_directory.h"
#include "tests/unit/record/collector_bytes.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"
#include "userspace/stream/visitor.h"

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr ProcessId kProcess = {100, 7};
constexpr uint16_t kAgent = 1;
constexpr uint64_t kGeneration = 6;
constexpr uint64_t kSession = 42;
constexpr uint32_t kPlanId = 5;

// Keeps what a session gets; readings as their sums.
struct Sink : RecordSink {
  struct Dispatch {
    rocattach_dispatch record;
    bool for_timestamps, for_counters;
    uint32_t pass;
    std::vector<double> sums;
  };
  struct Sample {
    uint64_t begin_ns, end_ns;
    uint32_t agent_id, pass;
    std::vector<double> sums;
  };
  std::vector<Dispatch> dispatches;
  std::vector<Sample> samples;
  std::vector<uint64_t> copies;  // correlation ids
  std::vector<ApiEvent> calls;

  static std::vector<double> SumsOf(absl::Span<const CounterReading> readings) {
    std::vector<double> sums;
    for (const CounterReading& reading : readings) sums.push_back(reading.sum);
    return sums;
  }
  void OnDispatches(ProcessId target, absl::Span<const DispatchEvent> events) override {
    EXPECT_EQ(target, kProcess);
    for (const DispatchEvent& event : events) {
      dispatches.push_back({event.dispatch, event.for_timestamps, event.for_counters,
                            event.pass, SumsOf(event.readings)});
    }
  }
  void OnCopies(ProcessId, absl::Span<const rocattach_copy> records) override {
    for (const rocattach_copy& copy : records) copies.push_back(copy.correlation_id);
  }
  void OnApiCalls(ProcessId, absl::Span<const ApiEvent> events) override {
    calls.insert(calls.end(), events.begin(), events.end());
  }
  void OnSamples(ProcessId, absl::Span<const SampleEvent> events) override {
    for (const SampleEvent& event : events) {
      samples.push_back({event.begin_ns, event.end_ns, event.agent_id, event.pass,
                         SumsOf(event.readings)});
    }
  }
  void OnTargetEnded(ProcessId) override {}
};

// What the stream says.
struct Written : StreamVisitor {
  std::vector<CounterRecord> counters, samples;
  std::vector<ApiCallRecord> calls;
  std::vector<MemoryRecord> memory;
  void OnMemory(const FrameContext&, absl::Span<const MemoryRecord> records) override {
    memory.insert(memory.end(), records.begin(), records.end());
  }
  void OnCounters(const FrameContext&,
                  absl::Span<const CounterRecord> records) override {
    counters.insert(counters.end(), records.begin(), records.end());
  }
  void OnSamples(const FrameContext&,
                 absl::Span<const CounterRecord> records) override {
    samples.insert(samples.end(), records.begin(), records.end());
  }
  void OnApiCalls(const FrameContext&,
                  absl::Span<const ApiCallRecord> records) override {
    calls.insert(calls.end(), records.begin(), records.end());
  }
};

uint16_t TagOf(uint64_t generation) {
  return static_cast<uint16_t>(ROCATTACH_PLAN_TAG(generation) << 9);
}

class SessionRecordsTest : public testing::Test {
 protected:
  void SetUp() override {
    auto output = OutputSet::Open({directory_.path(), "run", {}});
    ASSERT_TRUE(output.ok()) << output.status();
    output_.emplace(*std::move(output));
    const auto process = output_->OpenProcess({}, {});
    ASSERT_TRUE(process.ok()) << process.status();
    records_.emplace(kProcess, *process, &*output_, &plans_, &kernels_);
    AddKernel(1, "gemm");
    AddKernel(2, "reduce");
    AddPlan(kGeneration, sink_);
  }

  void AddKernel(uint32_t id, const std::string& name) {
    v1::Kernel kernel;
    kernel.set_id(id);
    kernel.set_name(name);
    ASSERT_TRUE(kernels_.Add(kernel));
  }
  // Both selections take kernels of agent 1 that match "gemm", exactly. Dispatches are
  // counted in two passes of three and one counters; samples in one of two.
  void AddPlan(uint64_t generation, std::shared_ptr<RecordSink> sink) {
    auto compiled = std::make_shared<CompiledPlan>();
    compiled->counter_names = {"A", "B", "C"};
    compiled->target.gpus.resize(1);
    compiled->target.gpus[0].agent_id = kAgent;
    compiled->gpu_architectures = {0};
    compiled->architectures.resize(1);
    compiled->architectures[0].dispatch.passes = {{{"A", "B", "C"}}, {{"A"}}};
    compiled->architectures[0].sampler.passes = {{{"A", "B"}}};
    for (ExactSelection& selection : compiled->selections) {
      selection.wanted = true;
      selection.kernels = *KernelFilter::Create({"gemm"}, {});
      selection.agents = {kAgent};
    }
    auto plan = std::make_shared<ActivePlan>();
    plan->generation = generation;
    plan->session = kSession;
    plan->plan_id = kPlanId;
    plan->plan = std::move(compiled);
    plan->sink = std::move(sink);
    plans_.Add(std::move(plan));
  }

  static rocattach_dispatch Dispatch(uint64_t correlation, uint16_t flags,
                                     uint32_t kernel = 1) {
    rocattach_dispatch record = {};
    record.kind = ROCATTACH_RECORD_DISPATCH;
    record.flags = flags | TagOf(kGeneration);
    record.kernel_id = kernel;
    record.correlation_id = correlation;
    record.agent_id = kAgent;
    return record;
  }
  bool Take(rocattach_dispatch record, uint32_t ring = 0) {
    return records_->TakeDispatch(ring, &record);
  }
  bool TakeCounted(uint64_t correlation, uint32_t ring = 0) {
    return Take(Dispatch(correlation,
                         ROCATTACH_DISPATCH_COUNTED | ROCATTACH_DISPATCH_FOR_COUNTERS),
                ring);
  }
  // One slot of two of a dispatch's values: counters 0 and 1, then counter 2.
  static rocattach_values Values(uint64_t operation, uint16_t slot) {
    rocattach_values values = {};
    values.kind = ROCATTACH_RECORD_VALUES;
    values.slots = 2;
    values.slot = slot;
    values.count = slot == 0 ? 2 : 1;
    values.correlation_id = operation;
    values.plan_generation = kGeneration;
    values.agent_id = kAgent;
    values.of = ROCATTACH_RECORD_DISPATCH;
    for (uint16_t i = 0; i < values.count; ++i) {
      const uint16_t counter = static_cast<uint16_t>(2 * slot + i);
      values.value[i].counter = counter;
      values.value[i].instances = 4;
      values.value[i].sum = 10 * (counter + 1);
      values.value[i].minimum = 1;
      values.value[i].maximum = 9;
    }
    return values;
  }
  void Take(const rocattach_values& values, uint32_t ring = 0) {
    records_->TakeValues(ring, SlotOf(values));
  }
  void TakeValuesOf(uint64_t operation, uint32_t ring = 0) {
    for (const uint16_t slot : {0, 1}) Take(Values(operation, slot), ring);
  }
  static rocattach_sample Sample(uint64_t id) {
    rocattach_sample sample = {};
    sample.kind = ROCATTACH_RECORD_SAMPLE;
    sample.agent_id = kAgent;
    sample.sample_id = id;
    sample.plan_generation = kGeneration;
    sample.begin_ns = 1000;
    sample.end_ns = 2000;
    sample.values = 2;
    sample.slots = 1;
    return sample;
  }
  void Take(const rocattach_sample& sample) {
    records_->TakeSample(0, SlotOf(sample));
    rocattach_values values = Values(sample.sample_id, 0);
    values.slots = 1;
    values.of = ROCATTACH_RECORD_SAMPLE;
    Take(values);
  }
  static rocattach_api_call ApiCall() {
    rocattach_api_call call = {};
    call.kind = ROCATTACH_RECORD_API;
    call.domain = ROCATTACH_PLAN_API_MARKER;
    call.function = 3;
    call.tid = 11;
    call.plan_tag = ROCATTACH_PLAN_TAG(kGeneration);
    call.correlation_id = 9;
    call.ancestor_id = 8;
    call.begin_ns = 1000;
    call.end_ns = 2000;
    return call;
  }
  bool Take(const rocattach_api_call& call) {
    return records_->TakeApiCall(0, SlotOf(call));
  }
  // Part `number` of a message.
  void TakeText(uint16_t number, const std::string& part) {
    rocattach_text text = {};
    text.kind = ROCATTACH_RECORD_TEXT;
    text.slot = number;
    text.bytes = static_cast<uint16_t>(part.size());
    memcpy(text.text, part.data(), std::min(part.size(), sizeof(text.text)));
    records_->TakeText(0, SlotOf(text));
  }

  const SessionCounts& counts() const { return records_->counts(); }
  // What the session has been given so far. Dispatches come with the next Write().
  auto& Delivered() {
    records_->Write();
    return sink_->dispatches;
  }
  Written Finish() {
    records_->End();
    EXPECT_TRUE(output_->Close({}).ok());
    Written written;
    StreamDecoder decoder(&written);
    EXPECT_TRUE(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
    return written;
  }

  const testing_support::TemporaryDirectory directory_;
  std::optional<OutputSet> output_;
  RecentPlans plans_;
  KernelNames kernels_;
  const std::shared_ptr<Sink> sink_ = std::make_shared<Sink>();
  std::optional<SessionRecords> records_;
};

TEST_F(SessionRecordsTest, ADispatchThatNobodyAskedForIsTheRecordings) {
  rocattach_dispatch record = Dispatch(1, ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_TRUE(records_->TakeDispatch(0, &record));
  EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNFINISHED);
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionRecordsTest, TheStreamHearsNothingOfPlansAndSelections) {
  rocattach_dispatch record = Dispatch(1, 0x1ff);
  record.flags &= static_cast<uint16_t>(~ROCATTACH_DISPATCH_COUNTED);
  EXPECT_TRUE(records_->TakeDispatch(0, &record));
  EXPECT_EQ(record.flags, ROCATTACH_DISPATCH_UNTIMED | ROCATTACH_DISPATCH_APP_SIGNAL |
                              ROCATTACH_DISPATCH_UNFINISHED);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Delivered()[0].record.flags, record.flags);
}

TEST_F(SessionRecordsTest, WhatTheTargetHasDecidedIsDelivered) {
  // Kernel 2 would not have matched.
  EXPECT_TRUE(Take(Dispatch(1, ROCATTACH_DISPATCH_SELECTED, 2)));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_timestamps);
  EXPECT_FALSE(Delivered()[0].for_counters);
  EXPECT_EQ(counts().filtered, 0u);
}

TEST_F(SessionRecordsTest, WhatTheTargetCouldNotDecideIsDecidedExactly) {
  constexpr uint16_t kUndecided =
      ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_SELECTED_UNDECIDED;
  EXPECT_TRUE(Take(Dispatch(1, kUndecided, 1)));
  // By its name, without one, and by its agent.
  EXPECT_FALSE(Take(Dispatch(2, kUndecided, 2)));
  EXPECT_FALSE(Take(Dispatch(3, kUndecided, 99)));
  rocattach_dispatch elsewhere = Dispatch(4, kUndecided, 1);
  elsewhere.agent_id = 2;
  EXPECT_FALSE(Take(elsewhere));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Delivered()[0].record.correlation_id, 1u);
  EXPECT_EQ(counts().filtered, 3u);
  // The recording wants all of them, the session still does not.
  EXPECT_TRUE(Take(Dispatch(5, kUndecided | ROCATTACH_DISPATCH_BASELINE, 2)));
  EXPECT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(counts().filtered, 3u);
}

TEST_F(SessionRecordsTest, EachSelectionIsDecidedByItself) {
  EXPECT_TRUE(
      Take(Dispatch(1,
                    ROCATTACH_DISPATCH_SELECTED | ROCATTACH_DISPATCH_FOR_COUNTERS |
                        ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED,
                    2)));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_timestamps);
  EXPECT_FALSE(Delivered()[0].for_counters);
}

TEST_F(SessionRecordsTest, WhatAForgottenPlanSelectedReachesNoSession) {
  rocattach_dispatch record = Dispatch(1, ROCATTACH_DISPATCH_SELECTED);
  record.flags = ROCATTACH_DISPATCH_SELECTED | TagOf(kGeneration + 2);
  EXPECT_FALSE(Take(record));
  EXPECT_EQ(counts().filtered, 1u);
  record.flags |= ROCATTACH_DISPATCH_BASELINE;
  EXPECT_TRUE(Take(record));
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionRecordsTest, ALateDispatchGoesToThePlanThatSelectedIt) {
  auto next = std::make_shared<Sink>();
  AddPlan(kGeneration + 2, next);
  EXPECT_TRUE(Take(Dispatch(1, ROCATTACH_DISPATCH_SELECTED)));
  EXPECT_EQ(Delivered().size(), 1u);
  EXPECT_THAT(next->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, ADispatchWaitsForItsValues) {
  EXPECT_TRUE(TakeCounted(1));
  Take(Values(1, 0));
  EXPECT_THAT(Delivered(), IsEmpty());
  Take(Values(1, 1));
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_counters);
  EXPECT_EQ(Delivered()[0].record.correlation_id, 1u);
  EXPECT_THAT(Delivered()[0].sums, ElementsAre(10, 20, 30));
  EXPECT_EQ(counts().counted, 1u);
  EXPECT_EQ(counts().counted_invalid, 0u);
  const Written written = Finish();
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

TEST_F(SessionRecordsTest, ValuesBelongToTheirRing) {
  TakeCounted(1, 0);
  TakeCounted(2, 5);
  Take(Values(1, 0), 0);
  TakeValuesOf(2, 5);
  Take(Values(1, 1), 0);
  ASSERT_EQ(Delivered().size(), 2u);
  EXPECT_EQ(Delivered()[0].record.correlation_id, 2u);
  EXPECT_EQ(Delivered()[1].record.correlation_id, 1u);
  EXPECT_EQ(counts().counted, 2u);
}

TEST_F(SessionRecordsTest, ValuesOfAnotherPassAreThatPasss) {
  TakeCounted(1);
  rocattach_values values = Values(1, 0);
  values.pass = 1;
  values.slots = 1;
  values.count = 1;
  Take(values);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Delivered()[0].pass, 1u);
  const Written written = Finish();
  ASSERT_EQ(written.counters.size(), 1u);
  EXPECT_EQ(written.counters[0].pass, 1u);
}

// Whatever the target's memory says: what the plan did not ask for is not believed.
TEST_F(SessionRecordsTest, ValuesThatThePlanCannotHaveAreInvalid) {
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
    TakeCounted(1);
    rocattach_values values = Values(1, 0);
    changes[i](&values);
    Take(values);
    EXPECT_EQ(counts().counted_invalid, i + 1) << i;
    // Once, however many follow.
    Take(Values(1, 1));
    EXPECT_EQ(counts().counted_invalid, i + 1) << i;
  }
  EXPECT_THAT(Delivered(), IsEmpty());
  EXPECT_EQ(counts().counted, 0u);
}

TEST_F(SessionRecordsTest, ValuesMustNotChangeFromSlotToSlot) {
  TakeCounted(1);
  Take(Values(1, 0));
  rocattach_values values = Values(1, 1);
  values.slots = 3;
  Take(values);
  EXPECT_EQ(counts().counted_invalid, 1u);
  TakeCounted(2);
  Take(Values(2, 0));
  values = Values(2, 1);
  values.pass = 1;
  Take(values);
  EXPECT_EQ(counts().counted_invalid, 2u);
  TakeCounted(3);
  Take(Values(3, 0));
  Take(Values(3, 0));
  EXPECT_EQ(counts().counted_invalid, 3u);
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionRecordsTest, WhatInterruptsValuesMakesThemInvalid) {
  TakeCounted(1);
  Take(Values(1, 0));
  TakeCounted(2);
  Take(Values(1, 1));
  EXPECT_EQ(counts().counted_invalid, 2u);
  // At the end, too.
  TakeCounted(3, 1);
  records_->End();
  EXPECT_EQ(counts().counted_invalid, 3u);
  EXPECT_EQ(counts().counted, 0u);
  EXPECT_THAT(Delivered(), IsEmpty());
}

// What is drained at once is taken at once, and checked as slot by slot.
TEST_F(SessionRecordsTest, AllValuesAtOnce) {
  TakeCounted(1);
  const std::vector<RecordSlot> slots = {SlotOf(Values(1, 0)), SlotOf(Values(1, 1)),
                                         SlotOf(Sample(1))};
  EXPECT_EQ(records_->TakeAllValues(0, slots), 2u);
  EXPECT_EQ(records_->TakeAllValues(0, slots), 0u) << "they have been taken";
  TakeCounted(2);
  TakeValuesOf(2);
  ASSERT_EQ(Delivered().size(), 2u);
  EXPECT_THAT(Delivered()[0].sums, ElementsAre(10, 20, 30));
  EXPECT_EQ(counts().counted, 2u);
  EXPECT_EQ(counts().counted_invalid, 0u);
  const Written written = Finish();
  ASSERT_EQ(written.counters.size(), 6u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(written.counters[i].operation, 1u);
    EXPECT_EQ(written.counters[3 + i].operation, 2u);
    EXPECT_EQ(written.counters[i].counter, written.counters[3 + i].counter);
    EXPECT_EQ(written.counters[i].sum, written.counters[3 + i].sum);
    EXPECT_EQ(written.counters[i].pass, written.counters[3 + i].pass);
  }
}

TEST_F(SessionRecordsTest, NothingIsTakenAtOnceThatIsNotRight) {
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
      [](rocattach_values* v) { v->value[0].counter = 60000; },
      [](rocattach_values* v) { v->value[0].instances = 0; },
  };
  uint64_t id = 1;
  for (const Change change : kChanges) {
    for (const size_t changed : {0, 1}) {
      rocattach_values values[2] = {Values(id, 0), Values(id, 1)};
      change(&values[changed]);
      TakeCounted(id++);
      EXPECT_EQ(records_->TakeAllValues(0, {SlotOf(values[0]), SlotOf(values[1])}), 0u);
    }
  }
  // Cut off by the end of what was drained.
  TakeCounted(id);
  EXPECT_EQ(records_->TakeAllValues(0, {SlotOf(Values(id, 0))}), 0u);
  EXPECT_EQ(records_->TakeAllValues(0, {}), 0u);
  EXPECT_EQ(records_->TakeAllValues(7, {SlotOf(Values(id, 0))}), 0u);
  // It can still be taken slot by slot.
  TakeValuesOf(id);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_EQ(Finish().counters.size(), 3u);
}

// Nobody reads the dispatches of a session that is only recorded.
TEST_F(SessionRecordsTest, WhatNobodyReadsIsCounted) {
  struct Unread : Sink {
    bool ReadsDispatches(bool, bool) const override { return false; }
    void CountDispatches(uint64_t for_timestamps, uint64_t for_counters) override {
      timestamps += for_timestamps;
      counters += for_counters;
    }
    uint64_t timestamps = 0, counters = 0;
  };
  auto unread = std::make_shared<Unread>();
  AddPlan(kGeneration, unread);
  TakeCounted(1);
  TakeValuesOf(1);
  Take(Dispatch(2, ROCATTACH_DISPATCH_SELECTED));
  EXPECT_EQ(Finish().counters.size(), 3u) << "but they are recorded";
  EXPECT_EQ(unread->counters, 1u);
  EXPECT_EQ(unread->timestamps, 1u);
  EXPECT_THAT(unread->dispatches, IsEmpty());
}

TEST_F(SessionRecordsTest, NothingIsLeftOfInterruptedValues) {
  TakeCounted(1);
  Take(Values(1, 0));
  TakeCounted(2);
  TakeValuesOf(2);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_THAT(Delivered()[0].sums, ElementsAre(10, 20, 30));
  TakeCounted(3);
  Take(Values(3, 0));
  Take(Sample(1));
  ASSERT_EQ(sink_->samples.size(), 1u);
  EXPECT_THAT(sink_->samples[0].sums, ElementsAre(10, 20));
  EXPECT_EQ(counts().counted_invalid, 2u);
  EXPECT_EQ(counts().counted, 1u);
}

// The target counted a kernel that it could not decide about.
TEST_F(SessionRecordsTest, ValuesThatTheFilterDidNotWantAreLeftOut) {
  constexpr uint16_t kCounted = ROCATTACH_DISPATCH_COUNTED |
                                ROCATTACH_DISPATCH_FOR_COUNTERS |
                                ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED;
  EXPECT_FALSE(Take(Dispatch(1, kCounted, 2)));
  TakeValuesOf(1);
  EXPECT_THAT(Delivered(), IsEmpty());
  EXPECT_EQ(counts().counted_filtered, 1u);
  EXPECT_EQ(counts().filtered, 1u);
  // Another filter of the session wants its times.
  EXPECT_TRUE(Take(Dispatch(2, kCounted | ROCATTACH_DISPATCH_SELECTED, 2)));
  TakeValuesOf(2);
  ASSERT_EQ(Delivered().size(), 1u);
  EXPECT_TRUE(Delivered()[0].for_timestamps);
  EXPECT_FALSE(Delivered()[0].for_counters);
  EXPECT_EQ(counts().counted_filtered, 2u);
  EXPECT_EQ(counts().filtered, 1u);
  EXPECT_EQ(counts().counted, 0u);
  EXPECT_THAT(Finish().counters, IsEmpty());
}

TEST_F(SessionRecordsTest, ASampleComesWithItsValues) {
  Take(Sample(3));
  ASSERT_EQ(sink_->samples.size(), 1u);
  EXPECT_EQ(sink_->samples[0].agent_id, kAgent);
  EXPECT_EQ(sink_->samples[0].begin_ns, 1000u);
  EXPECT_EQ(sink_->samples[0].end_ns, 2000u);
  EXPECT_THAT(sink_->samples[0].sums, ElementsAre(10, 20));
  EXPECT_EQ(counts().samples, 1u);
  EXPECT_EQ(counts().samples_invalid, 0u);
  const Written written = Finish();
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

TEST_F(SessionRecordsTest, CopiesGoToTheSessionThatSelectedThem) {
  rocattach_copy copy = {};
  copy.kind = ROCATTACH_RECORD_COPY;
  copy.correlation_id = 1;
  copy.flags = ROCATTACH_COPY_BASELINE | TagOf(kGeneration);
  EXPECT_TRUE(records_->TakeCopy(&copy));
  EXPECT_THAT(sink_->copies, IsEmpty());
  copy.correlation_id = 2;
  copy.flags =
      ROCATTACH_COPY_SELECTED | ROCATTACH_DISPATCH_UNTIMED | TagOf(kGeneration);
  EXPECT_TRUE(records_->TakeCopy(&copy));
  EXPECT_THAT(sink_->copies, ElementsAre(2));
  EXPECT_EQ(copy.flags, ROCATTACH_DISPATCH_UNTIMED);
  copy.correlation_id = 3;
  copy.flags = ROCATTACH_COPY_SELECTED | TagOf(kGeneration + 2);
  EXPECT_TRUE(records_->TakeCopy(&copy));
  EXPECT_THAT(sink_->copies, ElementsAre(2));
}

TEST_F(SessionRecordsTest, AnApiCallGoesToTheStreamAndTheSession) {
  rocattach_api_call call = ApiCall();
  // Without an end, and not printable.
  memset(call.text, 'x', sizeof(call.text));
  call.text[0] = '\x1b';
  call.flags = ROCATTACH_API_TEXT_CUT;
  Take(call);
  ASSERT_EQ(sink_->calls.size(), 1u);
  EXPECT_EQ(sink_->calls[0].domain, TraceDomain::kMarkers);
  EXPECT_EQ(sink_->calls[0].function, 3u);
  EXPECT_EQ(sink_->calls[0].tid, 11u);
  EXPECT_EQ(sink_->calls[0].correlation_id, 9u);
  EXPECT_EQ(sink_->calls[0].begin_ns, 1000u);
  EXPECT_EQ(sink_->calls[0].end_ns, 2000u);
  EXPECT_EQ(counts().api_calls, 1u);
  const Written written = Finish();
  ASSERT_EQ(written.calls.size(), 1u);
  EXPECT_EQ(written.calls[0].session, kSession);
  EXPECT_EQ(written.calls[0].ancestor_id, 8u);
  EXPECT_EQ(written.calls[0].flags & kApiCallTextCut, kApiCallTextCut);
  EXPECT_EQ(written.calls[0].text.find('\x1b'), std::string::npos);
  EXPECT_EQ(written.calls[0].text.substr(written.calls[0].text.size() - 39),
            std::string(39, 'x'));
}

TEST_F(SessionRecordsTest, AMessageOfAnyLengthFollowsItsCall) {
  const std::string first(ROCATTACH_TEXT_SLOT_BYTES, 'a');
  rocattach_api_call call = ApiCall();
  call.text_slots = 2;
  EXPECT_TRUE(Take(call));
  TakeText(0, first);
  EXPECT_THAT(sink_->calls, IsEmpty());
  TakeText(1, "end");
  EXPECT_EQ(sink_->calls.size(), 1u);
  TakeText(2, "of nothing");
  call.text_slots = 0;
  EXPECT_TRUE(Take(call));
  const Written written = Finish();
  ASSERT_EQ(written.calls.size(), 2u);
  EXPECT_EQ(written.calls[0].text, first + "end");
  EXPECT_EQ(written.calls[0].flags & kApiCallTextCut, 0);
  EXPECT_EQ(written.calls[1].text, "");
}

TEST_F(SessionRecordsTest, ACallWhoseMessageIsNotCompleteIsCut) {
  rocattach_api_call call = ApiCall();
  call.text_slots = 3;
  Take(call);
  TakeText(0, "one ");
  TakeText(2, "three");  // out of order
  Take(call);
  TakeText(0, std::string(ROCATTACH_TEXT_SLOT_BYTES + 1, 'x'));  // more than there is
  Take(call);
  TakeText(0, "another operation follows");
  rocattach_dispatch dispatch = Dispatch(1, 0);
  records_->TakeDispatch(0, &dispatch);
  Take(call);  // the process ends
  const Written written = Finish();
  ASSERT_EQ(written.calls.size(), 4u);
  const std::vector<std::string> want = {"one ", "", "another operation follows", ""};
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(written.calls[i].text, want[i]);
    EXPECT_NE(written.calls[i].flags & kApiCallTextCut, 0) << i;
  }
  EXPECT_EQ(counts().api_calls, 4u);
}

TEST_F(SessionRecordsTest, AnApiCallThatMakesNoSenseIsInvalid) {
  const std::vector<std::function<void(rocattach_api_call*)>> changes = {
      [](auto* c) { ++c->plan_tag; },
      [](auto* c) { c->domain = ROCATTACH_PLAN_API_DOMAINS; },
      [](auto* c) { c->function = ROCATTACH_PLAN_API_FUNCTIONS; },
      [](auto* c) { c->end_ns = c->begin_ns - 1; },
      [](auto* c) { c->text_slots = 746; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    rocattach_api_call call = ApiCall();
    changes[i](&call);
    Take(call);
    EXPECT_EQ(counts().api_calls_invalid, i + 1) << i;
  }
  EXPECT_THAT(sink_->calls, IsEmpty());
  EXPECT_EQ(counts().api_calls, 0u);
  EXPECT_THAT(Finish().calls, IsEmpty());
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
  EXPECT_THAT(Delivered(), IsEmpty()) << "its instances follow";
  records_->TakeInstances(0, SlotOf(InstancesOf(1, 0, {2, 2, 0, 0, 0})));
  records_->TakeInstances(0, SlotOf(InstancesOf(1, 1, {0, 9})));
  EXPECT_EQ(Delivered().size(), 1u);
  TakeCounted(2);
  TakeValuesOf(2);
  const Written written = Finish();
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
  const Written written = Finish();
  EXPECT_EQ(counts().counted_invalid, 6u);
  EXPECT_THAT(written.counters, IsEmpty());
  EXPECT_THAT(Delivered(), IsEmpty());
}

TEST_F(SessionRecordsTest, MemoryGoesToTheStream) {
  rocattach_memory memory = {};
  memory.kind = ROCATTACH_RECORD_MEMORY;
  memory.operation = ROCATTACH_MEMORY_SCRATCH_ALLOCATE;
  memory.agent_id = kAgent;
  memory.scratch_flags = 2;
  memory.tid = 77;
  memory.plan_tag = ROCATTACH_PLAN_TAG(kGeneration);
  memory.correlation_id = 9;
  memory.start_ns = 1000;
  memory.end_ns = 3000;
  memory.address = 0x7f00;
  memory.bytes = 4096;
  memory.queue_id = 3;
  EXPECT_TRUE(records_->TakeMemory(0, memory));
  rocattach_memory bad = memory;
  bad.end_ns = 999;
  EXPECT_FALSE(records_->TakeMemory(0, bad));
  bad = memory;
  ++bad.plan_tag;
  EXPECT_FALSE(records_->TakeMemory(0, bad));
  bad = memory;
  bad.operation = 8;
  EXPECT_FALSE(records_->TakeMemory(0, bad));
  EXPECT_EQ(counts().memory, 1u);
  EXPECT_EQ(counts().memory_invalid, 3u);
  const Written written = Finish();
  ASSERT_EQ(written.memory.size(), 1u);
  const MemoryRecord& record = written.memory[0];
  EXPECT_EQ(record.session, kSession);
  EXPECT_EQ(record.operation, v1::MEMORY_OPERATION_SCRATCH_ALLOCATE);
  EXPECT_EQ(record.agent_id, kAgent);
  EXPECT_EQ(record.scratch_flags, 2);
  EXPECT_EQ(record.tid, 77u);
  EXPECT_EQ(record.correlation_id, 9u);
  EXPECT_EQ(record.begin_ns, 1000u);
  EXPECT_EQ(record.end_ns, 3000u);
  EXPECT_EQ(record.address, 0x7f00u);
  EXPECT_EQ(record.bytes, 4096u);
  EXPECT_EQ(record.queue_id, 3u);
}

TEST_F(SessionRecordsTest, ArgumentsKeepTheirLinesAndAreNoMessage) {
  rocattach_api_call call = ApiCall();
  call.flags = ROCATTACH_API_TEXT_ARGUMENTS;
  strcpy(call.text, "a=1\nb=x\ty");
  EXPECT_TRUE(Take(call));
  ASSERT_EQ(sink_->calls.size(), 1u);
  EXPECT_EQ(sink_->calls[0].text, "");
  const Written written = Finish();
  ASSERT_EQ(written.calls.size(), 1u);
  EXPECT_EQ(written.calls[0].text, "a=1\nb=x?y");
  EXPECT_NE(written.calls[0].flags & kApiCallArguments, 0);
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
  const Written written = Finish();
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
