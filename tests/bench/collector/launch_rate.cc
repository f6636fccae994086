// collector_launch_rate [ROUNDS]: HIP's launch rate with the collector absent, armed
// but idle, and recording every dispatch with times by either capture; 1 and 6 threads,
// kernels of 0 and 5 µs. Rounds are interleaved, so that a slow minute of the machine
// affects all of them; medians are printed.
#include <stdio.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/integration/collector/collector_run.h"

namespace rocattach {
namespace {

struct Mode {
  const char* name;
  std::vector<std::string> environment;
};

struct Case {
  int threads;
  int kernel_ns;
  int launches;  // per thread
};

struct Cell {
  std::vector<double> rates;
  uint64_t records = 0, untimed = 0, lost = 0;
};

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void RunOnce(const Case& c, const Mode& mode, Cell* cell) {
  CollectorRunOptions options;
  options.environment = mode.environment;
  options.environment.push_back(absl::StrCat("SIMGPU_KERNEL_NS=", c.kernel_ns));
  CollectorResult r =
      RunWithCollector({LAUNCH_RATE_PROGRAM, "-n", absl::StrCat(c.launches), "-t",
                        absl::StrCat(c.threads)},
                       options);
  if (r.Printed("rate") < 0) {
    fprintf(stderr, "%s: no rate: %s%s\n", mode.name, r.output.c_str(),
            r.errors.c_str());
    exit(1);
  }
  cell->rates.push_back(static_cast<double>(r.Printed("rate")));
  cell->records += r.dispatches.size();
  cell->untimed += r.WithFlags(ROCATTACH_DISPATCH_UNTIMED);
  cell->lost += r.account.ring_dropped + r.account.packets_unseen;
}

int Main(int argc, char** argv) {
  int rounds = argc > 1 ? atoi(argv[1]) : 5;
  const std::vector<Mode> modes = {
      {"absent", {"COLLECTOR_TEST_LIBRARY=", SimgpuPreload()}},
      {"armed, idle", {"COLLECTOR_TEST_RECORDING=0"}},
      {"doorbell", {"COLLECTOR_TEST_PLAN=103"}},
      {"intercept", {"COLLECTOR_TEST_PLAN=203"}},
  };
  const std::vector<Case> cases = {
      {1, 0, 200'000}, {6, 0, 40'000}, {1, 5000, 100'000}, {6, 5000, 20'000}};
  for (const Case& c : cases) {
    std::vector<Cell> cells(modes.size());
    for (int round = 0; round < rounds; ++round) {
      for (size_t m = 0; m < modes.size(); ++m) RunOnce(c, modes[m], &cells[m]);
    }
    printf("%d thread%s, %d µs kernels\n", c.threads, c.threads == 1 ? "" : "s",
           c.kernel_ns / 1000);
    double absent = Median(cells[0].rates);
    for (size_t m = 0; m < modes.size(); ++m) {
      double rate = Median(cells[m].rates);
      printf(
          "  %-12s %9.0f launches/s  %5.1f %%  records %llu untimed %llu lost %llu\n",
          modes[m].name, rate, 100 * rate / absent,
          static_cast<unsigned long long>(cells[m].records),
          static_cast<unsigned long long>(cells[m].untimed),
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
