// Totals of the samples of whole GPUs in a recording.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_SAMPLE_TOTALS_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_SAMPLE_TOTALS_H_

#include <stddef.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>

#include "tests/integration/watch/harness.h"

namespace rocattach::testing_support {

// Sum and number of the samples of one counter, and the time that they cover.
struct SampleTotals {
  double sum = 0;
  size_t count = 0;
  uint64_t begin_ns = UINT64_MAX, end_ns = 0;
};

inline std::map<std::string, SampleTotals> SamplesByCounter(
    const RecordedProcess& process) {
  std::map<std::string, SampleTotals> by_counter;
  for (const CounterRecord& sample : process.samples) {
    const v1::SessionPlan& plan = process.plans.at(sample.plan);
    SampleTotals& all = by_counter[plan.counters(static_cast<int>(sample.counter))];
    all.sum += sample.sum;
    ++all.count;
    all.begin_ns = std::min(all.begin_ns, sample.begin_ns);
    all.end_ns = std::max(all.end_ns, sample.end_ns);
  }
  return by_counter;
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_SAMPLE_TOTALS_H_
