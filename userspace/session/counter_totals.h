// Values of a kernel from many dispatches, each measured in one pass.
#ifndef ROCATTACH_USERSPACE_SESSION_COUNTER_TOTALS_H_
#define ROCATTACH_USERSPACE_SESSION_COUNTER_TOTALS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "userspace/session/compiled_plan.h"

namespace rocattach {

// One requested value of one kernel.
struct KernelValue {
  std::string name;
  bool metric = false;
  // Counters: the sum over the dispatches that measured it. Metrics: absent.
  std::optional<double> total;
  // Counters: the mean per dispatch. Metrics: the expression over such means, from the
  // passes that contain all of it; in a quotient, long dispatches have more weight, as
  // they should.
  std::optional<double> mean;
  uint64_t dispatches = 0;  // number that it is based on
  // A metric over means of different dispatches: see PlannedValue.
  bool mixed = false;
};

// Passes of one architecture, for the kernels of one process. Not thread-safe.
class CounterTotals {
 public:
  // `gpu` provides the constants of metrics. Both must outlive this.
  CounterTotals(const CompiledPlan& plan, const PlanArchitecture& architecture,
                const TargetGpu& gpu);

  // Adds a dispatch of `kernel`; a pass that the plan does not have is ignored. Returns
  // the approximate number of bytes that were allocated permanently.
  size_t Add(uint32_t kernel, uint32_t pass,
             absl::Span<const rocattach_counter_value> readings);
  // Moves the values of `from` to `into`, for two kernels with the same name.
  void Join(uint32_t into, uint32_t from);

  std::vector<uint32_t> Kernels() const;
  // Dispatches of the kernel in each pass.
  std::vector<uint64_t> Passes(uint32_t kernel) const;
  // False if a pass was never measured: the kernel was dispatched too rarely.
  bool Complete(uint32_t kernel) const;
  // In the order of the request.
  std::vector<KernelValue> Values(uint32_t kernel) const;

 private:
  struct Sum {
    double sum = 0, minimum = 0, maximum = 0;  // each summed over dispatches
    double instances = 0;
    uint64_t dispatches = 0;
    void Add(const Sum& other);
  };
  struct Kernel {
    std::vector<uint64_t> passes;
    // By pass and counter index.
    std::vector<std::map<uint16_t, Sum>> sums;
  };
  Sum SumOf(const Kernel& kernel, absl::Span<const size_t> passes,
            const std::string& name) const;

  const CompiledPlan& plan_;
  const PlanArchitecture& architecture_;
  const TargetGpu& gpu_;
  std::map<uint32_t, Kernel> kernels_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_COUNTER_TOTALS_H_
