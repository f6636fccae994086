// The collector's part of a counted dispatch with 8 counters: all of its callbacks,
// from the announcement to the values in a ring, in processor time of the calling
// thread. The SDK's functions that it calls are the bench's own, and as fast as a
// multiplication, so these figures contain nothing of an SDK.
//
// For comparison: the samples of rocprofiler-sdk do the following in these callbacks:
// they keep every record that the SDK passes in a vector behind a mutex.
#include <benchmark/benchmark.h>
#include <stdio.h>
#include <string.h>

#include <memory>
#include <mutex>
#include <vector>

#include "tests/unit/collector/test_memory.h"
#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/sdk/dispatches.h"

namespace rocattach::collector {
namespace {

// Instances of 8 counters of gfx90a in the SDK: SQ, GRBM, SPI, TA, TD, TCP, TCC, CPC.
constexpr uint32_t kInstances[] = {8, 1, 8, 128, 128, 128, 32, 1};
constexpr uint32_t kCounters = sizeof(kInstances) / sizeof(kInstances[0]);
constexpr uint64_t kAgent = 101, kKernel = 5, kQueue = 3;

rocattach_sdk_status QueryAgents(int32_t, rocattach_sdk_agents_cb callback, size_t,
                                 void* data) {
  rocattach_sdk_agent agent = {};
  agent.size = ROCATTACH_SDK_AGENT_BASE_BYTES;
  agent.id = {kAgent};
  agent.type = ROCATTACH_SDK_AGENT_GPU;
  agent.name = "gfx90a";
  agent.product_name = "A product";
  agent.num_xcc = 1;
  const void* agents[] = {&agent};
  return callback(ROCATTACH_SDK_AGENT_INFO_VERSION_0, agents, 1, data);
}

rocattach_sdk_status IterateCounters(rocattach_sdk_agent_id agent,
                                     rocattach_sdk_counters_cb callback, void* data) {
  rocattach_sdk_counter_id ids[kCounters];
  for (uint32_t i = 0; i < kCounters; ++i) ids[i] = {i + 1};
  return callback(agent, ids, kCounters, data);
}

rocattach_sdk_status QueryCounter(rocattach_sdk_counter_id id, int32_t, void* info) {
  static const char* const kNames[] = {"C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8"};
  auto* v0 = static_cast<rocattach_sdk_counter_info_v0*>(info);
  v0->id = id;
  v0->name = kNames[id.handle - 1];
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status CreateConfig(rocattach_sdk_agent_id, rocattach_sdk_counter_id*,
                                  size_t, rocattach_sdk_counter_config_id* config) {
  config->handle = 7;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status DestroyConfig(rocattach_sdk_counter_config_id) {
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

// Instance IDs are counter * 1000 + position.
rocattach_sdk_status CounterOf(rocattach_sdk_instance_id id,
                               rocattach_sdk_counter_id* counter) {
  counter->handle = id / 1000;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

// The records that an SDK passes with the values of one dispatch.
std::vector<rocattach_sdk_counter_record> Records() {
  std::vector<rocattach_sdk_counter_record> records;
  for (uint32_t counter = 0; counter < kCounters; ++counter) {
    for (uint32_t i = 0; i < kInstances[counter]; ++i) {
      records.push_back({(counter + 1) * 1000 + i,
                         static_cast<double>(4096 + 37 * i % 101),
                         1,
                         {},
                         {kAgent}});
    }
  }
  return records;
}

rocattach_sdk_dispatch_data Dispatch(uint64_t id) {
  rocattach_sdk_dispatch_data data = {};
  data.start_timestamp = 1000;
  data.end_timestamp = 2000;
  data.dispatch_info.agent_id = {kAgent};
  data.dispatch_info.queue_id = {kQueue};
  data.dispatch_info.kernel_id = kKernel;
  data.dispatch_info.dispatch_id = id;
  data.dispatch_info.grid_size = {1 << 20, 1, 1};
  data.dispatch_info.workgroup_size = {256, 1, 1};
  return data;
}

// The collector's parts, with a plan in force.
class Collector {
 public:
  // Returns nullptr, or what went wrong.
  const char* Init() {
    rocattach_collector_config config = SmallConfig();
    config.ring_slots = 4096;
    if (memory_.Create(config) != 0 || rings_.Init(&memory_) != 0) return "no memory";
    dictionary_.Init(&memory_);
    sdk_.query_available_agents = QueryAgents;
    sdk_.iterate_agent_supported_counters = IterateCounters;
    sdk_.query_counter_info = QueryCounter;
    sdk_.create_counter_config = CreateConfig;
    sdk_.destroy_counter_config = DestroyConfig;
    sdk_.query_record_counter_id = CounterOf;
    if (agents_.Load(&sdk_, &dictionary_) != ROCATTACH_SDK_STATUS_SUCCESS) {
      return "no agents";
    }
    plans_.Init(&memory_);
    configs_.Init(&sdk_, &agents_, &plans_);
    if (dispatches_.Init(
            &memory_, {&sdk_, &plans_, &agents_, &configs_, &dictionary_, &rings_,
                       &kernels_, &correlation_, &own_ns_, &other_dropped_, gate_.get(),
                       &streams_, &memory_.control()->sampling}) != 0) {
      return "no memory for dispatches";
    }
    kernels_.Insert(kKernel, 9);
    WritePlan();
    PlanResult result;
    const PlanState* state = plans_.Prepare(&result);
    if (state == nullptr) return "no plan";
    dispatches_.SetPasses(configs_.Build(*state, &result));
    plans_.Activate(state);
    return result.ok() ? nullptr : "the plan cannot be counted";
  }
  ~Collector() {
    rings_.Forget();
    memory_.Discard();
  }

  // All callbacks of the SDK for one dispatch; false if it was not counted.
  bool Run(uint64_t id, const std::vector<rocattach_sdk_counter_record>& records) {
    const rocattach_sdk_dispatch_data data = Dispatch(id);
    rocattach_sdk_callback_kernel_dispatch payload = {sizeof(payload), 0, 0,
                                                      data.dispatch_info};
    rocattach_sdk_callback_record record = {};
    record.payload = &payload;
    record.operation = ROCATTACH_SDK_DISPATCH_ENQUEUE;
    record.phase = ROCATTACH_SDK_PHASE_ENTER;
    rocattach_sdk_user_data traced = {}, counted = {};
    rocattach_sdk_counter_config_id config = {0};
    dispatches_.OnTrace(record, &traced);
    dispatches_.OnEnqueue(data, &config, &counted);
    record.operation = ROCATTACH_SDK_DISPATCH_COMPLETE;
    record.phase = ROCATTACH_SDK_PHASE_NONE;
    dispatches_.OnTrace(record, &traced);
    dispatches_.OnValues(data, records.data(), records.size(), counted);
    // Stands in for the service.
    rocattach_ring* ring = memory_.ring(0);
    const uint64_t head = LoadRelaxed(&ring->head);
    if (head - LoadRelaxed(&ring->tail) > 2048) StoreRelease(&ring->tail, head);
    return config.handle != 0;
  }

  const rocattach_ring& ring() const { return *memory_.ring(0); }

 private:
  void WritePlan() {
    auto image = std::make_unique<rocattach_plan>();
    image->magic = ROCATTACH_PLAN_MAGIC;
    image->version = ROCATTACH_PLAN_VERSION;
    image->bytes = sizeof(rocattach_plan);
    image->generation = 2;
    image->record_kinds = ROCATTACH_PLAN_RECORD_COUNTERS;
    image->architectures = 1;
    strcpy(image->architecture[0].name, "gfx90a");
    image->architecture[0].dispatch_passes = 1;
    image->passes = 1;
    image->pass[0].counters = kCounters;
    for (uint32_t i = 0; i < kCounters; ++i) {
      snprintf(image->counter_name[i], ROCATTACH_PLAN_NAME_BYTES, "C%u", i + 1);
      image->pass_counters[i] = static_cast<uint16_t>(i);
    }
    image->counters = image->pass_counters_used = kCounters;
    *memory_.plan() = *image;
  }

  rocattach_sdk_functions sdk_ = {};
  Memory memory_;
  Dictionary dictionary_;
  RingSet rings_;
  SdkAgents agents_;
  PlanSet plans_;
  SdkConfigs configs_;
  KernelTable kernels_;
  SdkStreams streams_;
  SdkDispatches dispatches_;
  std::unique_ptr<RingGate> gate_ = std::make_unique<RingGate>();
  uint64_t correlation_ = 1, own_ns_ = 0, other_dropped_ = 0;
};

void BM_CountedDispatch(benchmark::State& state) {
  auto collector = std::make_unique<Collector>();
  if (const char* why = collector->Init()) return state.SkipWithError(why);
  const std::vector<rocattach_sdk_counter_record> records = Records();
  uint64_t id = 0;
  for (auto _ : state) {
    if (!collector->Run(++id, records)) state.SkipWithError("not counted");
  }
  const rocattach_ring& ring = collector->ring();
  // A dispatch and four slots of values for each.
  if (ring.head != 5 * id || ring.counted_seen != id || ring.values_dropped != 0) {
    state.SkipWithError("values are missing");
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_CountedDispatch);

struct Kept {
  rocattach_sdk_dispatch_data dispatch;
  std::vector<rocattach_sdk_counter_record> records;
};

void BM_MutexVectorOfRecords(benchmark::State& state) {
  const std::vector<rocattach_sdk_counter_record> records = Records();
  std::mutex mutex;
  std::vector<Kept> kept;
  uint64_t id = 0;
  for (auto _ : state) {
    const rocattach_sdk_dispatch_data data = Dispatch(++id);
    Kept one = {data, records};
    std::lock_guard<std::mutex> lock(mutex);
    // As if the records were written out from time to time.
    if (kept.size() == 1024) kept.clear();
    kept.push_back(std::move(one));
    benchmark::DoNotOptimize(kept.data());
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_MutexVectorOfRecords);

}  // namespace
}  // namespace rocattach::collector

BENCHMARK_MAIN();
