// Runs the workload of the simulated newer ROCm with the collector in it, as the
// service would: plans are compiled by the service's own code and written to the
// collector's memory.
#ifndef ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_RUN_H_
#define ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_RUN_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/integration/collector/collector_run.h"
#include "tests/simrocm/counter_truth.h"
#include "userspace/session/compiled_plan.h"

namespace rocattach {

// One running process, as a test's step sees it.
struct SdkTarget {
  CollectorMemory& memory;
  CollectorResult& result;

  // Compiles filters for the process's GPUs, writes the plan; returns its generation.
  uint64_t Write(const std::vector<FilterSpec>& filters);
  // Writes a plan that records nothing.
  uint64_t WriteEmpty();
  // True once the collector has answered; *answer is its answer.
  bool Answered(uint64_t generation, PlanAnswer* answer);
  // True if the simulators have logged an event of this name.
  bool Logged(const std::string& event) const;
  // Ends the workload's step "wait".
  void Continue() const;

  std::string folder;                        // with the run's files
  std::shared_ptr<const CompiledPlan> plan;  // the last one written
};

struct SdkOptions {
  int gpus = 1;
  int threads = 1;
  std::string arch = "gfx90a";
  std::vector<std::string> command = {};  // a program to run instead of the workload
  // See tests/integration/simrocm/workload.c; "wait" waits for SdkTarget::Continue().
  std::vector<std::string> steps = {};
  std::string exit = "shutdown";  // see tests/integration/simrocm/workload.c
  // Filters of the plan in force before the first dispatch; empty: no plan.
  std::vector<FilterSpec> filters = {};
  uint32_t backend = ROCATTACH_BACKEND_SDK;
  bool recording = false;
  bool with_sdk = true;  // false: only rocprofiler-register is found
  std::vector<std::string> environment = {};
  // Called about every millisecond from the moment when the collector knows its GPUs.
  std::function<void(SdkTarget&)> step = {};
  double timeout_seconds = 100;
};

// "name key=value …" as the simulators log it.
struct LogEvent {
  std::string name;
  std::string line;
  std::string Field(const std::string& key) const;
};

struct SdkResult {
  CollectorResult run;
  BackendFacts backend;
  PlanAnswer answer;                         // to the plan of `filters`
  uint64_t generation = 0;                   // the generation of that plan
  std::shared_ptr<const CompiledPlan> plan;  // compiled from `filters`
  std::vector<LogEvent> log;

  // Names of logged events that are in `names`, in the order of the log.
  std::vector<std::string> LogOrder(const std::vector<std::string>& names) const;
};

SdkResult RunSdk(const SdkOptions& options);

// Counters that both the planner and the simulator know, in an order that mixes blocks.
std::vector<std::string> KnownCounters(size_t count,
                                       const std::string& arch = "gfx90a");

FilterSpec CountersFilter(const std::vector<std::string>& names);

simrocm::DispatchShape ShapeOf(const rocattach_dispatch& dispatch);

// The collector's file.
std::string CollectorPath();

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_COLLECTOR_SDK_RUN_H_
