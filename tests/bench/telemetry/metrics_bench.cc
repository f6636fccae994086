// The cost of metrics: for each dispatch while it is drained, and for each scrape.
#include <benchmark/benchmark.h>

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/telemetry/metrics_endpoint.h"
#include "userspace/telemetry/node_meters.h"

namespace rocattach {
namespace {

constexpr uint32_t kKernels = 64;

std::shared_ptr<TargetMeter> Open(uint32_t pid, NodeMeters* meters) {
  auto names = std::make_shared<TargetNames>();
  for (uint32_t kernel = 1; kernel <= kKernels; ++kernel) {
    names->AddKernel(kernel,
                     absl::StrCat("_Z", 7 + (kernel > 9), "kernel", kernel, "Pffi"));
  }
  v1::Process process;
  process.set_pid(pid);
  process.set_comm("python3");
  auto meter = meters->Open(process, std::move(names));
  TargetStanding standing;
  standing.gpus.resize(1);
  standing.gpus[0].agent_id = 1;
  standing.gpus[0].key = "GPU-0123456789abcdef";
  meter->Update(standing);
  return meter;
}

std::vector<rocattach_dispatch> Dispatches(size_t count) {
  std::vector<rocattach_dispatch> records(count);
  for (size_t i = 0; i < count; ++i) {
    records[i].agent_id = 1;
    records[i].kernel_id = 1 + static_cast<uint32_t>(i * 7) % kKernels;
    records[i].start_ns = 1000 * i;
    records[i].end_ns = 1000 * i + 500 + i % 4000;
  }
  return records;
}

void BM_Dispatch(benchmark::State& state) {
  NodeMeters meters({});
  const auto meter = Open(1, &meters);
  const auto records = Dispatches(2048);
  for (auto _ : state) meter->AddDispatches(records);
  state.SetItemsProcessed(state.iterations() * 2048);
}
BENCHMARK(BM_Dispatch);

struct FixedSource : MetricsSource {
  absl::StatusOr<NodeSnapshot> CaptureSnapshot(MetricsConsumer consumer) override {
    return meters.CaptureSnapshot(consumer);
  }
  absl::Status CheckAlive() override { return absl::OkStatus(); }
  absl::Status CheckReady() override { return absl::OkStatus(); }

  NodeMeters meters{{}};
};

// The work of the recorder's thread for a scrape; the argument is the number of
// processes, with some 40 series each.
void BM_Snapshot(benchmark::State& state) {
  FixedSource source;
  std::vector<std::shared_ptr<TargetMeter>> processes;
  const auto records = Dispatches(256);
  for (uint32_t pid = 1; pid <= state.range(0); ++pid) {
    processes.push_back(Open(pid, &source.meters));
    processes.back()->AddDispatches(records);
  }
  for (auto _ : state)
    benchmark::DoNotOptimize(source.meters.CaptureSnapshot(MetricsConsumer::kScrape));
  state.counters["series"] = static_cast<double>(
      source.meters.CaptureSnapshot(MetricsConsumer::kScrape).series);
}
BENCHMARK(BM_Snapshot)->Arg(10)->Arg(270)->Unit(benchmark::kMillisecond);

// The text of a scrape, which is made on another thread.
void BM_Scrape(benchmark::State& state) {
  FixedSource source;
  std::vector<std::shared_ptr<TargetMeter>> processes;
  const auto records = Dispatches(256);
  for (uint32_t pid = 1; pid <= state.range(0); ++pid) {
    processes.push_back(Open(pid, &source.meters));
    processes.back()->AddDispatches(records);
  }
  auto endpoint = MetricsEndpoint::Start(*ParseListenAddress("127.0.0.1:0"), &source);
  if (!endpoint.ok()) return state.SkipWithError("cannot listen");
  const NodeSnapshot node = source.meters.CaptureSnapshot(MetricsConsumer::kScrape);
  size_t bytes = 0;
  for (auto _ : state) bytes = (*endpoint)->MetricsText(node).size();
  state.counters["series"] = static_cast<double>(node.series);
  state.counters["bytes"] = static_cast<double>(bytes);
}
BENCHMARK(BM_Scrape)->Arg(10)->Arg(270)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace rocattach

BENCHMARK_MAIN();
