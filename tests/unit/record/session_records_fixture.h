// Records of a session as a target would publish them, and their results.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_SESSION_RECORDS_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_RECORD_SESSION_RECORDS_FIXTURE_H_

#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/record/collector_bytes.h"
#include "tests/unit/record/recording_fixture.h"
#include "userspace/record/sessions/session_records.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

inline constexpr ProcessId kProcess = {100, 7};
inline constexpr uint16_t kAgent = 1;
inline constexpr uint64_t kGeneration = 6;
inline constexpr uint64_t kSession = 42;
inline constexpr uint32_t kPlanId = 5;

// Keeps the records that a session receives; readings as their sums.
struct KeepingSink : RecordSink {
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
  std::vector<uint64_t> copies;  // correlation IDs
  std::vector<ApiEvent> calls;

  static std::vector<double> SumsOf(
      absl::Span<const rocattach_counter_value> readings) {
    std::vector<double> sums;
    for (const rocattach_counter_value& reading : readings) sums.push_back(reading.sum);
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

// Keeps the records of the stream.
struct WrittenRecords : StreamVisitor {
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

inline uint16_t TagOf(uint64_t generation) {
  return static_cast<uint16_t>(ROCATTACH_PLAN_TAG(generation) << 9);
}

class SessionRecordsTest : public RecordingTest {
 protected:
  void SetUp() override {
    RecordingTest::SetUp();
    records_.emplace(kProcess, OpenProcess(), &*output_, &plans_, &kernels_);
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
  // Both selections take exactly the kernels of agent 1 that match "gemm". Dispatches
  // are counted in two passes, of three counters and one; samples in one of two.
  void AddPlan(uint64_t generation, std::shared_ptr<RecordSink> sink,
               bool instances = true) {
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
    plan->instances = instances;
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
  bool Consume(rocattach_dispatch record, uint32_t ring = 0) {
    return records_->ConsumeDispatch(ring, &record);
  }
  bool ConsumeCounted(uint64_t correlation, uint32_t ring = 0) {
    return Consume(Dispatch(correlation, ROCATTACH_DISPATCH_COUNTED |
                                             ROCATTACH_DISPATCH_FOR_COUNTERS),
                   ring);
  }
  // One of the two slots of a dispatch's values: counters 0 and 1, or counter 2.
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
  void Consume(const rocattach_values& values, uint32_t ring = 0) {
    records_->ConsumeValues(ring, SlotOf(values));
  }
  void ConsumeValuesOf(uint64_t operation, uint32_t ring = 0) {
    for (const uint16_t slot : {0, 1}) Consume(Values(operation, slot), ring);
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
  void Consume(const rocattach_sample& sample) {
    records_->ConsumeSample(0, SlotOf(sample));
    rocattach_values values = Values(sample.sample_id, 0);
    values.slots = 1;
    values.of = ROCATTACH_RECORD_SAMPLE;
    Consume(values);
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
  bool Consume(const rocattach_api_call& call) {
    return records_->ConsumeApiCall(0, SlotOf(call));
  }
  // Consumes part `number` of a message.
  void ConsumeText(uint16_t number, const std::string& part, uint32_t ring = 0) {
    rocattach_text text = {};
    text.kind = ROCATTACH_RECORD_TEXT;
    text.slot = number;
    text.bytes = static_cast<uint16_t>(part.size());
    memcpy(text.text, part.data(), std::min(part.size(), sizeof(text.text)));
    records_->ConsumeText(ring, SlotOf(text));
  }

  const SessionCounts& counts() const { return records_->counts(); }
  // Dispatches that the session has received so far; Write() delivers the rest.
  auto& Delivered() {
    records_->Write();
    return sink_->dispatches;
  }
  WrittenRecords Finish() {
    records_->End();
    WrittenRecords written;
    Read(&written);
    return written;
  }

  RecentPlans plans_;
  KernelNames kernels_;
  const std::shared_ptr<KeepingSink> sink_ = std::make_shared<KeepingSink>();
  std::optional<SessionRecords> records_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_SESSION_RECORDS_FIXTURE_H_
