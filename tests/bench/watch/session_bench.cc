// The cost of a counted dispatch for its producer, and from the ring to the file,
// beside a vector behind a mutex and one protobuf message per record. Eight counters in
// one pass, as the collector publishes them: a dispatch and four slots of values.
#include <benchmark/benchmark.h>
#include <unistd.h>

#include <filesystem>
#include <mutex>
#include <string>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl.h"
#include "row.pb.h"
#include "tests/temporary_directory.h"
#include "tests/unit/collector/test_memory.h"
#include "userspace/base/clock.h"
#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/ring.h"
#include "userspace/record/target.h"
#include "userspace/session/compiled_plan.h"
#include "userspace/session/session_sink.h"

namespace rocattach {
namespace {

constexpr uint32_t kCounters = 8;
constexpr uint32_t kSlots = kCounters / ROCATTACH_VALUES_PER_SLOT;
constexpr uint32_t kRound = 8192;  // dispatches drained at once

// A dispatch and its values, in their layout in a ring.
struct Group {
  rocattach_dispatch dispatch = {};
  rocattach_values values[kSlots] = {};
};

Group MakeGroup(uint64_t generation) {
  Group group;
  rocattach_dispatch& d = group.dispatch;
  d.kind = ROCATTACH_RECORD_DISPATCH;
  d.flags = static_cast<uint16_t>(ROCATTACH_DISPATCH_COUNTED |
                                  ROCATTACH_DISPATCH_FOR_COUNTERS |
                                  ROCATTACH_PLAN_TAG(generation) << 9);
  d.kernel_id = 0;
  d.agent_id = 1;
  d.tid = 4711;
  d.grid_x = 1 << 20;
  d.grid_y = d.grid_z = 1;
  d.workgroup_x = 256;
  d.workgroup_y = d.workgroup_z = 1;
  for (uint32_t i = 0; i < kSlots; ++i) {
    rocattach_values& v = group.values[i];
    v.kind = ROCATTACH_RECORD_VALUES;
    v.slots = kSlots;
    v.slot = static_cast<uint16_t>(i);
    v.count = ROCATTACH_VALUES_PER_SLOT;
    v.plan_generation = generation;
    v.agent_id = 1;
    v.of = ROCATTACH_RECORD_DISPATCH;
    for (uint32_t k = 0; k < ROCATTACH_VALUES_PER_SLOT; ++k) {
      v.value[k].counter = static_cast<uint16_t>(ROCATTACH_VALUES_PER_SLOT * i + k);
      v.value[k].instances = 32;
    }
  }
  return group;
}

// Pseudo-random, and the same in each run.
uint64_t Jitter(uint64_t i, uint64_t below) {
  i = (i ^ i >> 31) * 0x7fb5d329728ea185u;
  i = (i ^ i >> 27) * 0x81dadef4bc2dd44du;
  return (i ^ i >> 33) % below;
}

// Makes it the next dispatch, with other times and values.
void Advance(uint64_t i, Group* group) {
  group->dispatch.correlation_id = i;
  group->dispatch.enqueue_ns = 5'000'000'000'000 + 9000 * i + Jitter(i * 64 + 35, 800);
  group->dispatch.start_ns =
      group->dispatch.enqueue_ns + 900 + Jitter(i * 64 + 33, 300);
  group->dispatch.end_ns = group->dispatch.start_ns + 5000 + Jitter(i * 64 + 34, 800);
  for (rocattach_values& slot : group->values) {
    slot.correlation_id = i;
    for (rocattach_counter_value& value : slot.value) {
      value.sum = static_cast<double>(4096 * (value.counter + 1) +
                                      Jitter(i * 64 + value.counter, 1000));
      value.minimum = static_cast<double>(static_cast<uint64_t>(value.sum) / 32);
      value.maximum = value.minimum + 1;
    }
  }
}

rocattach_collector_config Config() {
  rocattach_collector_config config = collector::SmallConfig();
  config.ring_slots = 1 << 16;
  config.ring_count = 2;
  return config;
}

// The collector's memory with one GPU in it.
class Producer {
 public:
  const char* Init() {
    if (memory.Create(Config()) != 0 || rings.Init(&memory) != 0) return "no memory";
    dictionary.Init(&memory);
    rocattach_agent_entry agent = {};
    agent.type = 2;
    agent.compute_units = 104;
    agent.simds_per_cu = 4;
    agent.wavefront_size = 64;
    constexpr char kName[] = "gfx90a\0";
    dictionary.Append(ROCATTACH_ENTRY_AGENT, &agent, kName, sizeof(kName) - 1);
    memory.control()->backend = ROCATTACH_BACKEND_SDK;
    memory.control()->record_kinds =
        ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS;
    return nullptr;
  }
  ~Producer() {
    rings.Forget();
    memory.Discard();
  }

  collector::Memory memory;
  collector::RingSet rings;
  collector::Dictionary dictionary;
};

// The service's side, with a session in force.
class Consumer {
 public:
  // Returns nullptr, or what went wrong.
  const char* Init(collector::Memory* memory, bool to_program) {
    auto outputs = OutputSet::Open({directory_.path(), "run", {}});
    if (!outputs.ok()) return "no output";
    outputs_ = std::make_unique<OutputSet>(*std::move(outputs));
    Window window;
    window.event.pid = window.event.tid = static_cast<uint32_t>(getpid());
    auto output = outputs_->OpenProcess(window.process, {});
    auto mapped =
        CollectorMemory::Map(getpid(), reinterpret_cast<uint64_t>(memory->base()),
                             memory->geometry().total_bytes, Config());
    if (!output.ok() || !mapped.ok()) return "cannot map the memory";
    target_ = std::make_unique<Target>(std::move(window), *output, v1::Process(),
                                       outputs_.get());
    (*mapped)->ViewWith(&views_);  // as in the recorder
    target_->SetMemory(*std::move(mapped), /*recording=*/false, /*acknowledged=*/true);
    target_->Drain(BootNs());
    auto description = target_->session()->Describe("");
    if (!description.has_value()) return "no description";
    FilterSpec filter;
    filter.kind = FilterKind::kCounters;
    filter.counters = {{"SQ_WAVES", "SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_SMEM",
                        "SQ_INSTS_LDS", "SQ_INSTS", "SQ_BUSY_CYCLES",
                        "SQ_WAVE_CYCLES"}};
    auto plan =
        CompilePlan(SessionId(1), {filter}, *description,
                    std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()));
    if (!plan.ok() || (*plan)->image->passes != 1) return "no plan of one pass";
    // As in the service: records go to the stream, and those of programs' sessions also
    // to the queue of what is sent to them.
    auto sink = std::make_shared<SessionSink>(
        to_program ? std::make_shared<Program>(this) : nullptr,
        std::vector<FilterSpec>{filter}, std::make_shared<SessionEnd>(),
        [](ProcessId) {});
    sink->AddTarget(target_->id(), *plan);
    target_->session()->Start(*plan, std::move(sink), 1, [](absl::Status) {});
    return nullptr;
  }
  ~Consumer() {
    target_.reset();
    outputs_.reset();
  }
  Target& target() { return *target_; }
  uint64_t handed_on() const { return handed_on_; }
  uint64_t FileBytes() {
    outputs_->Flush(UINT64_MAX);
    return std::filesystem::file_size(outputs_->files().front());
  }

 private:
  class Program : public RecordConsumer {
   public:
    explicit Program(Consumer* consumer) : consumer_(consumer) {}
    void Consume(const RecordHeader* begin, const RecordHeader* end) override {
      consumer_->copy_.assign(reinterpret_cast<const char*>(begin),
                              reinterpret_cast<const char*>(end));
      consumer_->Count(begin, end);
    }
    void TargetEnded(ProcessId) override {}

   private:
    Consumer* const consumer_;
  };

  void Count(const RecordHeader* begin, const RecordHeader* end) {
    for (auto* at = reinterpret_cast<const uint8_t*>(begin);
         at < reinterpret_cast<const uint8_t*>(end);
         at += reinterpret_cast<const RecordHeader*>(at)->bytes) {
      const auto* record = reinterpret_cast<const DispatchRecord*>(at);
      handed_on_ += record->values == kCounters ? 1 : 0;
    }
  }

  const testing_support::TemporaryDirectory directory_;
  uint64_t handed_on_ = 0;
  std::string copy_;
  RingViews views_{16 << 20};
  std::unique_ptr<OutputSet> outputs_;
  std::unique_ptr<Target> target_;
};

void BM_PushGroup(benchmark::State& state) {
  Producer producer;
  if (const char* why = producer.Init()) return state.SkipWithError(why);
  Group group = MakeGroup(2);
  Advance(1, &group);
  rocattach_ring* shared = producer.memory.ring(0);
  for (auto _ : state) {
    ++group.dispatch.correlation_id;
    collector::RingHandle ring = producer.rings.Mine();
    if (!ring.PushGroup(&group, 1 + kSlots)) state.SkipWithError("dropped");
    // Stands in for the service.
    const uint64_t head = collector::LoadRelaxed(&shared->head);
    if (head - collector::LoadRelaxed(&shared->tail) > (1 << 15)) {
      collector::StoreRelease(&shared->tail, head);
    }
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_PushGroup);

std::mutex vector_mutex;
std::vector<Group> vector_groups;

void BM_MutexVectorGroup(benchmark::State& state) {
  Group group = MakeGroup(2);
  Advance(1, &group);
  for (auto _ : state) {
    ++group.dispatch.correlation_id;
    std::lock_guard<std::mutex> lock(vector_mutex);
    if (vector_groups.size() >= kRound) vector_groups.clear();
    vector_groups.push_back(group);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_MutexVectorGroup)->Threads(1)->Threads(2)->UseRealTime();

// Measured in this thread's processor time, which is the capacity of one core.
void DrainToFile(benchmark::State& state, bool to_program) {
  Producer producer;
  Consumer consumer;
  if (const char* why = producer.Init()) return state.SkipWithError(why);
  if (const char* why = consumer.Init(&producer.memory, to_program))
    return state.SkipWithError(why);
  Group group = MakeGroup(producer.memory.plan()->generation);
  uint64_t next = 1;
  for (auto _ : state) {
    for (uint32_t i = 0; i < kRound; ++i) {
      Advance(next++, &group);
      collector::RingHandle ring = producer.rings.Mine();
      // The collector's counts: a target that delivers more than it has seen is not
      // read any further.
      ring.Count(&rocattach_ring::dispatches_seen, uint64_t{1});
      ring.Count(&rocattach_ring::counted_seen, uint64_t{1});
      if (!ring.PushGroup(&group, 1 + kSlots)) state.SkipWithError("dropped");
    }
    const uint64_t begin = ClockNs(CLOCK_THREAD_CPUTIME_ID);
    consumer.target().Drain(BootNs());
    state.SetIterationTime(
        static_cast<double>(ClockNs(CLOCK_THREAD_CPUTIME_ID) - begin) * 1e-9);
  }
  if (consumer.target().session()->counts().counted != next - 1) {
    state.SkipWithError("not every dispatch came through with its values");
  }
  if (to_program && consumer.handed_on() != next - 1) {
    state.SkipWithError("the program did not get what was recorded");
  }
  state.SetItemsProcessed(static_cast<int64_t>(next - 1));
  state.counters["bytes_per_record"] =
      static_cast<double>(consumer.FileBytes()) / static_cast<double>(next - 1);
}

void BM_DrainToFile(benchmark::State& state) {
  DrainToFile(state, /*to_program=*/false);
}
BENCHMARK(BM_DrainToFile)->UseManualTime();

void BM_DrainToFileAndProgram(benchmark::State& state) {
  DrainToFile(state, /*to_program=*/true);
}
BENCHMARK(BM_DrainToFileAndProgram)->UseManualTime();

void Fill(const Group& group, bench::CountedRow* out) {
  const rocattach_dispatch& d = group.dispatch;
  bench::Row* row = out->mutable_dispatch();
  row->set_agent_id(d.agent_id);
  row->set_tid(d.tid);
  row->set_correlation_id(d.correlation_id);
  row->set_enqueue_ns(d.enqueue_ns);
  row->set_start_ns(d.start_ns);
  row->set_end_ns(d.end_ns);
  row->set_grid_x(d.grid_x);
  row->set_grid_y(d.grid_y);
  row->set_grid_z(d.grid_z);
  row->set_workgroup_x(d.workgroup_x);
  row->set_workgroup_y(d.workgroup_y);
  row->set_workgroup_z(d.workgroup_z);
  out->clear_values();
  for (const rocattach_values& slot : group.values) {
    for (const rocattach_counter_value& value : slot.value) {
      bench::CounterValue* to = out->add_values();
      to->set_counter(value.counter);
      to->set_instances(value.instances);
      to->set_sum(value.sum);
      to->set_minimum(value.minimum);
      to->set_maximum(value.maximum);
    }
  }
}

// For comparison: one message per dispatch, made from the vector, in memory.
void BM_VectorToMessages(benchmark::State& state) {
  std::vector<Group> groups;
  Group group = MakeGroup(2);
  for (uint32_t i = 1; i <= kRound; ++i) {
    Advance(i, &group);
    groups.push_back(group);
  }
  std::string out;
  bench::CountedRow row;
  for (auto _ : state) {
    out.clear();
    google::protobuf::io::StringOutputStream stream(&out);
    google::protobuf::io::CodedOutputStream coded(&stream);
    for (const Group& one : groups) {
      Fill(one, &row);
      coded.WriteVarint32(static_cast<uint32_t>(row.ByteSizeLong()));
      row.SerializeWithCachedSizes(&coded);
    }
    coded.Trim();
    benchmark::DoNotOptimize(out.data());
  }
  state.SetItemsProcessed(state.iterations() * kRound);
  state.counters["bytes_per_record"] = static_cast<double>(out.size()) / kRound;
}
BENCHMARK(BM_VectorToMessages);

}  // namespace
}  // namespace rocattach

BENCHMARK_MAIN();
