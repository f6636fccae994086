// Sums of the counter values of one session plan: per kernel, and per GPU for samples.
#ifndef ROCATTACH_USERSPACE_REPORT_SESSION_COUNTERS_H_
#define ROCATTACH_USERSPACE_REPORT_SESSION_COUNTERS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schemas/records.pb.h"
#include "userspace/session/counter_totals.h"
#include "userspace/stream/session_records.h"

namespace rocattach {

// A kernel's values on the GPUs of one kind.
struct KernelCounters {
  std::string kernel;        // demangled; empty: its name is not in the recording
  uint32_t kernel_id = 0;    // one of them, if several share the name
  std::string architecture;  // "gfx90a"
  std::vector<uint32_t> agents;
  std::vector<uint64_t> passes;  // dispatches that each pass measured
  bool complete = true;          // every pass was measured
  std::vector<KernelValue> values;
};

// One counter of one GPU over all samples of a plan.
struct SampledCounter {
  uint32_t agent_id = 0;
  std::string name;
  uint64_t samples = 0;
  uint64_t covered_ns = 0;  // total time that the samples cover
  double total = 0;
  double smallest = 0, largest = 0;  // of all samples
};

class SessionCounters {
 public:
  // An inconsistent plan yields values without metrics; `problem` is set then.
  explicit SessionCounters(const v1::SessionPlan& plan);
  SessionCounters(const SessionCounters&) = delete;
  SessionCounters& operator=(const SessionCounters&) = delete;

  // Adds the values of one dispatch. Returns the approximate number of bytes that were
  // allocated permanently.
  size_t AddDispatch(absl::Span<const CounterRecord> values);
  size_t AddSample(absl::Span<const CounterRecord> values);

  // By kernel name, in alphabetical order, combined over kernels with the same name.
  // `name` returns the name of a kernel id. Call once, when everything has been added.
  std::vector<KernelCounters> Kernels(const std::function<std::string(uint32_t)>& name);
  std::vector<SampledCounter> Samples() const;

  const std::string& problem() const { return problem_; }
  // Number of values with a counter, a GPU or a pass that is not in the plan.
  uint64_t unknown_values() const { return unknown_values_; }

 private:
  // GPUs with the same counters and constants.
  struct Kind {
    std::string architecture;
    TargetGpu gpu;
    std::vector<uint32_t> agents;
    std::unique_ptr<PlanArchitecture> passes;
    std::unique_ptr<CounterTotals> totals;
  };
  void AddArchitecture(const v1::SessionArchitecture& architecture);
  void AddAgent(const v1::SessionAgent& agent);
  Kind* Find(uint32_t agent_id);

  std::string problem_;
  CounterCatalog catalog_;
  CompiledPlan plan_;  // names only
  std::map<std::string, PlanArchitecture> architectures_;
  std::vector<std::unique_ptr<Kind>> kinds_;
  std::map<uint32_t, Kind*> by_agent_;
  std::map<std::pair<uint32_t, uint16_t>, SampledCounter> samples_;
  std::vector<rocattach_counter_value> readings_;
  uint64_t unknown_values_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_SESSION_COUNTERS_H_
