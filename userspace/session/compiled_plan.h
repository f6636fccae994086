// A session's filters, compiled for one process: the image that its collector reads,
// and what the service needs for exact decisions and for names.
#ifndef ROCATTACH_USERSPACE_SESSION_COMPILED_PLAN_H_
#define ROCATTACH_USERSPACE_SESSION_COMPILED_PLAN_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/abi/plan.h"
#include "userspace/counters/catalog.h"
#include "userspace/counters/pass_planner.h"
#include "userspace/session/kernel_filter.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// The exact conditions of one dispatch filter. The image may be coarser: what it passes
// undecided is checked against these.
struct ExactSelection {
  bool wanted = false;  // the session has this filter
  KernelFilter kernels;
  std::vector<uint32_t> agents;  // empty: all
  std::vector<NumberRange> dispatches, iterations;

  // Conditions that do not need the kernel's name.
  bool SelectsBut(uint32_t agent, uint64_t dispatch, uint64_t iteration) const;
};

// The counters of one architecture; same index as rocattach_plan.architecture.
struct PlanArchitecture {
  const ArchitectureCounters* counters = nullptr;  // in `catalog`
  PassAssignment dispatch, sampler;
};

// Something that is not collected in a process although the filters would include it,
// for users: GPUs whose counters are not known, counters that the process's SDK lacks,
// domains that the user has not named.
struct LeftOut {
  std::string what;  // "TCC_BUBBLE", "calls of the HIP API"
  std::string why;   // "its rocprofiler-sdk does not have it"
  std::string Text() const;
};
// Merges, for users, what is left out for the same reason.
std::vector<LeftOut> ByReason(const std::vector<LeftOut>& left_out);

struct CompiledPlan {
  // generation and start_ns are 0: filled in when the plan is written to a target.
  // kernels_decided is 0: kernels are decided as they appear.
  std::unique_ptr<rocattach_plan> image;
  ExactSelection selections[ROCATTACH_PLAN_SELECTIONS];
  std::vector<PlanArchitecture> architectures;
  std::vector<std::string> counter_names;  // rocattach_plan.counter_name
  TargetDescription target;
  // For each of target.gpus, its index in `architectures`; -1: nothing is counted.
  std::vector<int> gpu_architectures;
  std::shared_ptr<const CounterCatalog> catalog;
  // Machine-wide keys of the GPUs whose counters it measures.
  std::vector<std::string> counter_gpus;
  std::vector<LeftOut> left_out;

  // The GPU and what it counts; nullptr when not known or not counting.
  const TargetGpu* Gpu(uint32_t agent_id) const;
  const PlanArchitecture* Architecture(uint32_t agent_id) const;
};

// The filters have passed CheckFilter and are one of each kind. FILTER_NOT_SUPPORTED
// for what the process cannot record, AGENT_NOT_FOUND if no GPU matches,
// COUNTER_NOT_FOUND and COUNTER_INFORMATION_MISSING for its GPUs' architectures,
// INVALID_OPERATION_ID for an API function that this process does not have,
// INVALID_ARGUMENTS for what the tables cannot hold or single_pass refuses. A GPU that
// no filter names and that cannot be measured is left out, unless there is no other
// one, and so are optional domains; `left_out` is what has been left out before.
absl::StatusOr<std::shared_ptr<const CompiledPlan>> CompilePlan(
    SessionId session, const std::vector<FilterSpec>& filters,
    const TargetDescription& target, std::shared_ptr<const CounterCatalog> catalog,
    std::vector<LeftOut> left_out = {});

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_COMPILED_PLAN_H_
