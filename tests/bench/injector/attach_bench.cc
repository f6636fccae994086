// The time that a held thread waits for its attach: from the call to the thread's
// release, and the part of it in which the thread is stopped.
//
// The targets are new processes whose thread spins at its window, as a held thread
// does; each is attached to once.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sched.h>

#include <algorithm>
#include <string>
#include <vector>

#include "injector/attach.h"
#include "injector/elf/function_offset.h"
#include "injector/elf/symbol_lookup.h"
#include "injector/process/maps.h"
#include "injector/process/target_checks.h"
#include "injector/process/thread_status.h"
#include "tests/integration/injector/target_process.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(q * static_cast<double>(values.size() - 1))];
}

void PinTo(int cpu) {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  CPU_SET(cpu, &cpus);
  sched_setaffinity(0, sizeof(cpus), &cpus);
}

// Sets the priority of the service's injector threads; children get the ordinary class.
// Returns false if that is not permitted.
bool UseRealTime(bool on) {
  sched_param priority = {};
  priority.sched_priority = on ? 10 : 0;
  return sched_setscheduler(0, (on ? SCHED_FIFO : SCHED_OTHER) | SCHED_RESET_ON_FORK,
                            &priority) == 0;
}

// The time at which the collector was called, from its own report.
double CollectorStarted(const std::string& report) {
  size_t at = report.find(" at=");
  return at == std::string::npos ? 0 : std::stod(report.substr(at + 4));
}

// range(0): with the cache of library facts or without it. range(1): the processor on
// which the target spins; the injector is on processor 0. range(2): with real-time
// priority or without it.
void BM_Attach(benchmark::State& state) {
  const int target_cpu = static_cast<int>(state.range(1));
  PinTo(0);
  if (!UseRealTime(state.range(2) != 0)) {
    state.SkipWithError("no right to real-time priority");
    return;
  }
  LibraryCache cache;
  std::vector<double> released, stopped, stopped_for, started;
  for (auto _ : state) {
    TargetProcess target;
    if (!target.Start({"", "plain", [target_cpu] { PinTo(target_cpu); }}) ||
        !target.WaitAtWindow()) {
      state.SkipWithError("no target");
      break;
    }
    AttachRequest request = target.Request();
    const uint64_t begin_ns = BootNs();
    AttachOutcome outcome =
        AttachAtWindow(request, state.range(0) != 0 ? &cache : nullptr);
    if (!outcome.ok()) {
      state.SkipWithError(outcome.detail.c_str());
      break;
    }
    const double begin = static_cast<double>(begin_ns);
    state.SetIterationTime((static_cast<double>(outcome.released_ns) - begin) / 1e9);
    released.push_back((static_cast<double>(outcome.released_ns) - begin) / 1e3);
    stopped.push_back((static_cast<double>(outcome.stopped_ns) - begin) / 1e3);
    stopped_for.push_back(
        static_cast<double>(outcome.released_ns - outcome.stopped_ns) / 1e3);
    started.push_back((CollectorStarted(target.WaitForReport()) - begin) / 1e3);
    target.Finish();
    if (!target.Intact()) state.SkipWithError("the target was harmed");
  }
  UseRealTime(false);
  state.counters["released_us_p50"] = Quantile(released, 0.5);
  state.counters["released_us_p99"] = Quantile(released, 0.99);
  state.counters["seen_stopped_us_p50"] = Quantile(stopped, 0.5);
  state.counters["stop_to_release_us_p50"] = Quantile(stopped_for, 0.5);
  state.counters["collector_called_us_p50"] = Quantile(started, 0.5);
}
BENCHMARK(BM_Attach)
    ->ArgNames({"cache", "cpu", "fifo"})
    ->Args({0, 1, 0})
    ->Args({1, 1, 0})
    ->Args({1, 0, 0})
    ->Args({1, 1, 1})
    ->Args({1, 0, 1})
    ->UseManualTime()
    ->Iterations(300)
    ->Unit(benchmark::kMicrosecond);

void BM_ReadMaps(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  for (auto _ : state) benchmark::DoNotOptimize(Maps::Read(target.pid()));
}
BENCHMARK(BM_ReadMaps)->Unit(benchmark::kMicrosecond);

void BM_ReadFiles(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  for (auto _ : state) benchmark::DoNotOptimize(Maps::ReadFiles(target.pid()));
}
BENCHMARK(BM_ReadFiles)->Unit(benchmark::kMicrosecond);

void BM_ReadThreadStatus(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  for (auto _ : state) {
    benchmark::DoNotOptimize(ReadThreadStatus(target.pid(), target.tid()));
  }
}
BENCHMARK(BM_ReadThreadStatus)->Unit(benchmark::kMicrosecond);

// The single steps of an attach.
void BM_CheckIdentity(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  const AttachRequest request = target.Request();
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckIdentity(request.point.pid, request.point.start_ns));
  }
}
BENCHMARK(BM_CheckIdentity)->Unit(benchmark::kMicrosecond);

void BM_CheckNotSecure(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  for (auto _ : state) benchmark::DoNotOptimize(CheckNotSecure(target.pid()));
}
BENCHMARK(BM_CheckNotSecure)->Unit(benchmark::kMicrosecond);

void BM_CheckCollector(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  auto status = ReadThreadStatus(target.pid(), target.tid());
  if (!status.ok()) state.SkipWithError("no status");
  for (auto _ : state) {
    benchmark::DoNotOptimize(CheckCollector(target.pid(), *status, CollectorPath()));
  }
}
BENCHMARK(BM_CheckCollector)->Unit(benchmark::kMicrosecond);

void BM_FindLoaderFunctions(benchmark::State& state) {
  TargetProcess target;
  if (!target.Start("plain")) state.SkipWithError("no target");
  auto maps = Maps::ReadFiles(target.pid());
  if (!maps.ok()) state.SkipWithError("no maps");
  LibraryCache cache;
  LoaderFunctions functions;
  for (auto _ : state) {
    benchmark::DoNotOptimize(
        FindLoaderFunctions(target.pid(), *maps, &cache, &functions));
  }
}
BENCHMARK(BM_FindLoaderFunctions)->Unit(benchmark::kMicrosecond);

// The work of the service for each new copy of the library.
void BM_FindFunctionFileOffset(benchmark::State& state) {
  auto fd = OpenFile(CollectorPath(), O_RDONLY);
  if (!fd.ok()) state.SkipWithError("no library");
  for (auto _ : state) {
    auto offset = FindFunctionFileOffset(fd->get(), "rocattach_collector_start");
    if (!offset.ok()) state.SkipWithError("not found");
  }
}
BENCHMARK(BM_FindFunctionFileOffset)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace rocattach

BENCHMARK_MAIN();
