// Runs a target with the collector in it and reads its memory as the service does.
#ifndef ROCATTACH_TESTS_INTEGRATION_COLLECTOR_COLLECTOR_RUN_H_
#define ROCATTACH_TESTS_INTEGRATION_COLLECTOR_COLLECTOR_RUN_H_

#include <gtest/gtest.h>
#include <stdlib.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "userspace/abi/shared_memory.h"
#include "userspace/record/drain/collector_memory.h"

namespace rocattach {

struct RecordedKernel {
  std::string name;
  rocattach_kernel_entry entry = {};
};

// Output, records and account of one run.
struct CollectorResult {
  pid_t pid = -1;
  int exit_status = -1;  // as from waitpid
  std::string output;    // standard output
  std::string errors;    // standard error
  bool mapped = false;
  uint32_t state = 0;
  v1::Collector collector;  // as it describes itself
  std::string text;
  std::vector<rocattach_dispatch> dispatches;
  std::vector<rocattach_copy> copies;
  std::vector<rocattach_clock> clocks;
  std::vector<rocattach_api_call> api_calls;
  std::map<uint64_t, std::string> texts;  // by the correlation id of their call
  std::vector<rocattach_memory> memory;
  std::map<uint64_t, std::vector<rocattach_instances>> instances;  // by correlation id
  std::vector<rocattach_sample> samples;
  // Values of dispatches by correlation id, values of samples by sample id.
  std::map<uint64_t, std::vector<rocattach_values>> values, sample_values;
  size_t stray_values = 0;             // not directly after the record they belong to
  std::vector<RecordSlot> unfinished;  // still in flight when the target ended
  std::map<uint32_t, RecordedKernel> kernels;
  std::vector<rocattach_agent_entry> agents;
  std::vector<std::string> agent_names;  // "gfx90a", in the order of `agents`
  // For each domain (enum rocattach_plan_api): number by function name.
  std::map<std::string, uint32_t> functions[ROCATTACH_PLAN_API_DOMAINS];
  std::vector<rocattach_queue_entry> queues;
  std::vector<std::string> code_objects;  // URIs
  CollectorAccount account;

  // The number after the last `key=` in the output; -1 if there is none.
  int64_t Printed(const std::string& key) const;
  size_t WithFlags(uint16_t flags) const;
  // Number of dispatches of kernels whose name contains `part`.
  size_t Named(const std::string& part) const;
};

struct CollectorRunOptions {
  std::vector<std::string> environment;  // "NAME=value", before the defaults
  bool map = true;                       // false: the memory is never mapped or drained
  bool drain = true;                     // false: mapped, but drained only at the end
  // Called about every millisecond once the memory is mapped.
  std::function<void(CollectorMemory&)> during;
  // The same, with the results so far. Until it has returned true once, the target is
  // not told that its memory is mapped, and waits in its hsa_init.
  std::function<bool(CollectorMemory&, CollectorResult&)> prepare;
  double timeout_seconds = 60;
};

// `command[0]` is a path. The target runs under the simulated GPU.
CollectorResult RunWithCollector(const std::vector<std::string>& command,
                                 const CollectorRunOptions& options = {});

// Environment entry that loads the simulated GPU into a target, not the collector.
std::string SimgpuPreload();

// True if other processes' memory can be mapped; otherwise *why says why not.
bool CanMapTargets(std::string* why);

// For SetUp(). In CI it fails instead of skipping: what these tests prove must not
// disappear unnoticed.
#define SKIP_UNLESS_TARGETS_CAN_BE_MAPPED()        \
  do {                                             \
    std::string why_;                              \
    if (!::rocattach::CanMapTargets(&why_)) {      \
      if (getenv("CI") != nullptr) FAIL() << why_; \
      GTEST_SKIP() << why_;                        \
    }                                              \
  } while (false)

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_COLLECTOR_COLLECTOR_RUN_H_
