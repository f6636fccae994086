// Records of the SDK backend besides dispatch counters: copies, API calls, samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/integration/collector/sdk_checks.h"
#include "tests/integration/collector/sdk_run.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

class SdkRecords : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }
};

FilterSpec Api(TraceDomain domain) {
  FilterSpec spec;
  spec.kind = FilterKind::kApiTrace;
  spec.api_domains = {domain};
  return spec;
}

TEST_F(SdkRecords, BaselineDispatchesAndCopies) {
  SdkResult result = RunSdk(
      {.gpus = 2, .threads = 2, .steps = {"dispatch:25", "copy:8"}, .recording = true});
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 100u);
  for (const auto& d : result.run.dispatches) {
    EXPECT_EQ(d.flags, ROCATTACH_DISPATCH_BASELINE);
    EXPECT_LT(d.start_ns, d.end_ns);
    EXPECT_LE(d.enqueue_ns, d.start_ns);
    EXPECT_NE(d.queue_id, 0u);
    EXPECT_NE(d.tid, 0u);
  }
  EXPECT_EQ(result.run.queues.size(), 4u);
  EXPECT_FALSE(result.run.code_objects.empty());
  ASSERT_EQ(result.run.copies.size(), 8u);
  size_t to_device = 0;
  for (const auto& copy : result.run.copies) {
    EXPECT_EQ(copy.flags, ROCATTACH_COPY_BASELINE);
    EXPECT_EQ(copy.bytes, 65536u);
    EXPECT_LT(copy.start_ns, copy.end_ns);
    to_device += copy.direction == ROCATTACH_COPY_HOST_TO_DEVICE;
    EXPECT_NE(copy.src_agent_id, copy.dst_agent_id);
  }
  EXPECT_EQ(to_device, 4u);
}

TEST_F(SdkRecords, CopiesOfAPlanOnly) {
  SdkResult result = RunSdk({.steps = {"copy:4", "dispatch:5"},
                             .filters = {Api(TraceDomain::kMemoryCopies)}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  EXPECT_TRUE(result.run.dispatches.empty());
  ASSERT_EQ(result.run.copies.size(), 4u);
  for (const auto& copy : result.run.copies) {
    EXPECT_TRUE(copy.flags & ROCATTACH_COPY_SELECTED);
    EXPECT_EQ(ROCATTACH_DISPATCH_PLAN_TAG(copy.flags),
              ROCATTACH_PLAN_TAG(result.generation));
  }
}

TEST_F(SdkRecords, HsaCallsByName) {
  FilterSpec spec = Api(TraceDomain::kHsaApi);
  spec.selection.hsa_functions = {"hsa_amd_memory_async_copy", "hsa_signal_destroy",
                                  "hsa_shut_down"};
  SdkResult result = RunSdk({.steps = {"copy:3", "dispatch:4"}, .filters = {spec}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  const auto& numbers = result.run.functions[ROCATTACH_PLAN_API_HSA];
  EXPECT_GT(numbers.size(), 150u);
  std::map<uint32_t, size_t> calls;
  uint64_t last_end = 0;
  for (const auto& call : result.run.api_calls) {
    EXPECT_EQ(call.domain, ROCATTACH_PLAN_API_HSA);
    EXPECT_LE(call.begin_ns, call.end_ns);
    // The last hsa_shut_down is hidden from the SDK, which thus has no number for it.
    EXPECT_EQ(call.correlation_id == 0, call.function == numbers.at("hsa_shut_down"));
    EXPECT_EQ(call.plan_tag, ROCATTACH_PLAN_TAG(result.generation));
    EXPECT_EQ(call.text[0], '\0');
    last_end = std::max(last_end, call.end_ns);
    ++calls[call.function];
  }
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[numbers.at("hsa_shut_down")], 1u);
  EXPECT_EQ(calls[numbers.at("hsa_amd_memory_async_copy")], 3u);
  EXPECT_GE(calls[numbers.at("hsa_signal_destroy")], 2u);
  EXPECT_EQ(result.run.account.api_calls_seen, result.run.api_calls.size());
}

TEST_F(SdkRecords, RcclCallsWithTheirArguments) {
  FilterSpec spec = Api(TraceDomain::kRcclApi);
  spec.arguments = true;
  SdkResult result = RunSdk({.steps = {"dispatch:2", "rccl:4"}, .filters = {spec}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  const auto& numbers = result.run.functions[ROCATTACH_PLAN_API_RCCL];
  EXPECT_EQ(numbers.size(), 2u);
  ASSERT_EQ(result.run.api_calls.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const rocattach_api_call& call = result.run.api_calls[i];
    EXPECT_EQ(call.domain, ROCATTACH_PLAN_API_RCCL);
    EXPECT_EQ(call.function, numbers.at("ncclAllReduce"));
    EXPECT_EQ(call.flags, ROCATTACH_API_TEXT_ARGUMENTS);
    ASSERT_EQ(call.text_slots, 1u) << "47 bytes";
    EXPECT_EQ(result.run.texts.at(call.correlation_id),
              "arg0=0\narg1=0\narg2=" + std::to_string(100 + i) +
                  "\narg3=7\narg4=0\narg5=0\narg6=0");
  }
}

// The workload allocates two blocks for each thread and two for copies.
size_t Allocations(const CollectorResult& run, uint16_t operation) {
  size_t count = 0;
  uint64_t last = 0;
  for (const rocattach_memory& memory : run.memory) {
    EXPECT_LE(memory.start_ns, memory.end_ns);
    EXPECT_NE(memory.correlation_id, 0u);
    EXPECT_NE(memory.tid, 0u);
    if (memory.operation != operation) continue;
    ++count;
    last = memory.bytes;
    EXPECT_NE(memory.address, 0u);
    EXPECT_NE(memory.agent_id, 0u);
    EXPECT_EQ(memory.queue_id, 0u);
  }
  EXPECT_NE(last, 0u);
  return count;
}

TEST_F(SdkRecords, MemoryThatIsAllocatedAndFreed) {
  for (const uint32_t backend :
       {uint32_t{ROCATTACH_BACKEND_SDK}, uint32_t{ROCATTACH_BACKEND_HSA_TOOLS}}) {
    SdkResult result = RunSdk({.threads = 2,
                               .steps = {"copy:4", "dispatch:5"},
                               .filters = {Api(TraceDomain::kMemoryAllocations)},
                               .backend = backend});
    SCOPED_TRACE(backend);
    EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
    ExpectCleanRun(result);
    EXPECT_TRUE(result.run.dispatches.empty());
    EXPECT_GE(Allocations(result.run, ROCATTACH_MEMORY_ALLOCATE), 6u);
    std::map<uint64_t, int> live;
    size_t copied = 0;
    for (const auto& memory : result.run.memory) {
      EXPECT_EQ(memory.plan_tag, ROCATTACH_PLAN_TAG(result.generation));
      if (memory.operation == ROCATTACH_MEMORY_ALLOCATE) {
        EXPECT_EQ(++live[memory.address], 1);
        copied += memory.bytes == 65536;
      } else {
        EXPECT_EQ(memory.operation, ROCATTACH_MEMORY_FREE);
        EXPECT_EQ(memory.bytes, 0u) << "the runtime does not say";
        EXPECT_EQ(--live[memory.address], 0);
      }
    }
    EXPECT_EQ(copied, 2u);
    EXPECT_EQ(result.run.account.memory_seen, result.run.memory.size());
    EXPECT_EQ(result.run.account.memory_dropped, 0u);
  }
}

TEST_F(SdkRecords, ScratchMemoryOfQueues) {
  SdkResult result = RunSdk({.threads = 3,
                             .steps = {"dispatch:5"},
                             .filters = {Api(TraceDomain::kScratchMemory)},
                             .recording = true,
                             .environment = {"SIMROCM_SCRATCH_BYTES=123456"}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  std::map<uint32_t, uint16_t> last;  // operation by queue
  for (const auto& memory : result.run.memory) {
    EXPECT_GT(memory.operation, last[memory.queue_id]);
    last[memory.queue_id] = memory.operation;
    EXPECT_NE(memory.queue_id, 0u);
    EXPECT_NE(memory.agent_id, 0u);
    EXPECT_EQ(memory.scratch_flags, 1);
    EXPECT_EQ(memory.bytes,
              memory.operation == ROCATTACH_MEMORY_SCRATCH_ALLOCATE ? 123456u : 0u);
  }
  EXPECT_EQ(last.size(), 3u);
  for (const auto& d : result.run.dispatches) EXPECT_TRUE(last.contains(d.queue_id));
}

TEST_F(SdkRecords, MemoryIsNotRecordedUnlessRequested) {
  SdkResult result = RunSdk({.steps = {"copy:2", "dispatch:5"},
                             .filters = {Api(TraceDomain::kMemoryCopies)},
                             .environment = {"SIMROCM_SCRATCH_BYTES=123456"}});
  ExpectCleanRun(result);
  EXPECT_TRUE(result.run.memory.empty());
  EXPECT_EQ(result.run.account.memory_seen, 0u);
}

// Libraries that registered before the collector are passed to the SDK by a thread that
// is not in the middle of a registration.
TEST_F(SdkRecords, PassesEarlierRegistrationsToSdkForMarkerCalls) {
  SdkResult result = RunSdk({.steps = {"dispatch:3", "wait", "environment"},
                             .filters = {Api(TraceDomain::kMarkers)},
                             .step = [](SdkTarget& target) {
                               if (target.Logged("register.invoke_nonpropagated")) {
                                 target.Continue();
                               }
                             }});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  EXPECT_EQ(result.LogOrder({"register.invoke_nonpropagated"}).size(), 1u);
  EXPECT_THAT(result.run.output, testing::Not(HasSubstr("child: ")));
}

// The HSA tools backend carries out the parts of a plan that it supports.
TEST_F(SdkRecords, TheHsaToolsBackendSelectsToo) {
  FilterSpec times;
  times.kind = FilterKind::kDispatchTimestamps;
  times.selection.dispatches = {{3, 10}};
  for (bool recording : {false, true}) {
    SdkResult result = RunSdk({.steps = {"dispatch:20", "copy:2"},
                               .filters = {times, Api(TraceDomain::kMemoryCopies)},
                               .backend = ROCATTACH_BACKEND_HSA_TOOLS,
                               .recording = recording});
    EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
    ExpectCleanRun(result);
    EXPECT_EQ(result.run.dispatches.size(), recording ? 20u : 8u);
    EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_SELECTED), 8u);
    EXPECT_EQ(CountFlag(result.run, ROCATTACH_DISPATCH_BASELINE), recording ? 20u : 0u);
    for (const auto& d : result.run.dispatches) {
      EXPECT_EQ((d.flags & ROCATTACH_DISPATCH_SELECTED) != 0,
                d.dispatch_id >= 3 && d.dispatch_id <= 10);
      EXPECT_EQ(d.iteration, d.dispatch_id);
      EXPECT_EQ(ROCATTACH_DISPATCH_PLAN_TAG(d.flags),
                ROCATTACH_PLAN_TAG(result.generation));
    }
    ASSERT_EQ(result.run.copies.size(), 2u);
    EXPECT_TRUE(result.run.copies[0].flags & ROCATTACH_COPY_SELECTED);
  }
}

FilterSpec Sampler(const std::vector<std::string>& names, uint64_t interval_ns) {
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.counters = {names};
  spec.sample_interval_ns = interval_ns;
  return spec;
}

// The sum over all samples equals the sum over all dispatches.
TEST_F(SdkRecords, SamplesAddUpToTheTruth) {
  const std::vector<std::string> names = {"SQ_WAVES", "TCC_HIT", "GRBM_COUNT"};
  FilterSpec times;
  times.kind = FilterKind::kDispatchTimestamps;
  SdkResult result =
      RunSdk({.gpus = 2,
              .threads = 3,
              .steps = {"dispatch:100", "sleep:60", "dispatch:50", "sleep:60"},
              .filters = {Sampler(names, 5'000'000), times}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  EXPECT_EQ(result.run.dispatches.size(), 900u);
  std::map<std::pair<uint32_t, std::string>, double> expected, sampled;
  for (const auto& dispatch : result.run.dispatches) {
    for (const std::string& name : names) {
      expected[{dispatch.agent_id, name}] +=
          static_cast<double>(simrocm::CounterTotal(name, ShapeOf(dispatch)));
    }
  }
  std::map<uint32_t, uint64_t> last_end;
  for (const auto& sample : result.run.samples) {
    EXPECT_LT(sample.begin_ns, sample.end_ns);
    EXPECT_GE(sample.begin_ns, last_end[sample.agent_id]);
    last_end[sample.agent_id] = sample.end_ns;
    EXPECT_EQ(sample.values, 3u);
    EXPECT_EQ(sample.plan_generation, result.generation);
    for (const rocattach_values& slot : result.run.sample_values.at(sample.sample_id)) {
      for (uint32_t i = 0; i < slot.count; ++i) {
        sampled[{sample.agent_id,
                 result.plan->counter_names.at(slot.value[i].counter)}] +=
            slot.value[i].sum;
      }
    }
  }
  EXPECT_GT(result.run.samples.size(), 20u);
  EXPECT_EQ(result.run.account.samples_dropped, 0u);
  EXPECT_EQ(sampled, expected);
}

TEST_F(SdkRecords, SamplerPassesAreMultiplexed) {
  const std::vector<std::string> names = KnownCounters(150);
  SdkResult result =
      RunSdk({.steps = {"dispatch:2000"}, .filters = {Sampler(names, 2'000'000)}});
  EXPECT_EQ(result.answer.error, 0u) << result.answer.text;
  ExpectCleanRun(result);
  const uint32_t passes = result.plan->image->architecture[0].sampler_passes;
  ASSERT_GT(passes, 2u);
  uint32_t expected = 0;
  for (const auto& sample : result.run.samples) {
    EXPECT_EQ(sample.pass, expected);
    expected = (expected + 1) % passes;
  }
  EXPECT_GT(result.run.samples.size(), passes);
}

}  // namespace
}  // namespace rocattach
