// collector_sdk_rate [ROUNDS [DISPATCHES]]: the cost of a dispatch for the application
// with the SDK backend, armed but idle, tracing, and counting 1, 8 and (in passes) 40
// counters, compared with the HSA tools backend and with no collector; 1 and 16
// threads. The SDK is the simulated one and takes most of the time itself; "ours" is
// the time of the collector's part, on all threads.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/integration/collector/sdk_run.h"

namespace rocattach {
namespace {

struct Mode {
  const char* name;
  uint32_t backend;
  bool recording;
  size_t counters;
  bool absent = false;  // no collector, no simulated ROCm parts
};

struct Cell {
  std::vector<double> ns;   // per dispatch
  std::vector<double> own;  // the part of it in the collector's own code
  uint64_t dispatches = 0, records = 0, values = 0, lost = 0;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values.empty() ? 0 : values[values.size() / 2];
}

void RunOnce(const Mode& mode, int threads, int dispatches, Cell* cell) {
  SdkOptions options;
  options.threads = threads;
  options.steps = {"dispatch:" + std::to_string(dispatches)};
  options.backend = mode.backend;
  options.recording = mode.recording;
  options.environment = {"SIMGPU_KERNEL_NS=0"};
  if (mode.counters != 0) {
    options.filters = {CountersFilter(KnownCounters(mode.counters))};
  }
  if (mode.absent) options.environment.push_back(SimgpuPreload());
  SdkResult result = RunSdk(options);
  const int64_t spent = result.run.Printed("dispatch_ns");
  if (spent <= 0 || result.answer.error != 0) {
    fprintf(stderr, "%s: %s%s%s\n", mode.name, result.answer.text.c_str(),
            result.run.output.c_str(), result.run.errors.c_str());
    exit(1);
  }
  cell->ns.push_back(static_cast<double>(spent) / dispatches / threads);
  cell->own.push_back(static_cast<double>(result.run.account.own_ns) / dispatches /
                      threads);
  cell->dispatches +=
      static_cast<uint64_t>(dispatches) * static_cast<uint64_t>(threads);
  cell->records += result.run.dispatches.size();
  for (const auto& [id, slots] : result.run.values) {
    for (const rocattach_values& slot : slots) cell->values += slot.count;
  }
  cell->lost += result.run.account.ring_dropped;
}

int Main(int argc, char** argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 5;
  const int dispatches = argc > 2 ? atoi(argv[2]) : 16000;
  const Mode modes[] = {
      {"absent", ROCATTACH_BACKEND_NONE, false, 0, true},
      {"HSA tools, idle", ROCATTACH_BACKEND_HSA_TOOLS, false, 0},
      {"HSA tools, tracing", ROCATTACH_BACKEND_HSA_TOOLS, true, 0},
      {"SDK, idle", ROCATTACH_BACKEND_SDK, false, 0},
      {"SDK, tracing", ROCATTACH_BACKEND_SDK, true, 0},
      {"SDK, 1 counter", ROCATTACH_BACKEND_SDK, false, 1},
      {"SDK, 8 counters", ROCATTACH_BACKEND_SDK, false, 8},
      {"SDK, 40 counters", ROCATTACH_BACKEND_SDK, false, 40},
  };
  constexpr size_t kModes = sizeof(modes) / sizeof(modes[0]);
  for (int threads : {1, 16}) {
    std::vector<Cell> cells(kModes);
    for (int round = 0; round < rounds; ++round) {
      for (size_t m = 0; m < kModes; ++m) {
        RunOnce(modes[m], threads, dispatches / threads, &cells[m]);
      }
    }
    printf("%d thread%s\n", threads, threads == 1 ? "" : "s");
    for (size_t m = 0; m < kModes; ++m) {
      printf(
          "  %-20s %8.0f ns/dispatch  ours %6.0f  records %llu of %llu  values %llu  "
          "lost %llu\n",
          modes[m].name, Median(cells[m].ns), Median(cells[m].own),
          static_cast<unsigned long long>(cells[m].records),
          static_cast<unsigned long long>(cells[m].dispatches),
          static_cast<unsigned long long>(cells[m].values),
          static_cast<unsigned long long>(cells[m].lost));
    }
    fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace rocattach

int main(int argc, char** argv) {
  return rocattach::Main(argc, argv);
}
