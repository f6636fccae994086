// The kernels of a page, combined by name over all processes.
#ifndef ROCATTACH_USERSPACE_REPORT_HTML_PAGE_KERNELS_H_
#define ROCATTACH_USERSPACE_REPORT_HTML_PAGE_KERNELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "userspace/base/json.h"
#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"

namespace rocattach {

class PageKernels {
 public:
  // Kernels with the longest total are listed; the others share one line.
  static constexpr size_t kMaxListed = 4000;
  static constexpr size_t kMaxNameBytes = 8 << 20;  // all names together
  static constexpr int kOthers = -1;

  // `report` must outlive this.
  explicit PageKernels(const Report& report);

  // Index in List() of a process's kernel.
  int IndexOf(const ProcessReport& process, uint32_t kernel_id) const;
  // The kernels with their histograms and counter values.
  Json List(const KernelGroups& groups) const;
  // Totals of the kernels that are not listed; null if all are listed.
  Json Others() const;
  // All kernels, for groups.
  const std::vector<KernelReport>& kernels() const { return kernels_; }
  uint64_t total_ns() const { return total_ns_; }

 private:
  void Add(const ProcessReport& process);
  void AddCounters(const ProcessReport& process);

  std::vector<KernelReport> kernels_;  // longest total first
  absl::flat_hash_map<std::string, size_t> by_name_;
  std::vector<Json> counters_;  // an array for each listed kernel
  size_t listed_ = 0;
  uint64_t total_ns_ = 0;
};

// Count, totals, quantiles and histogram of durations.
Json DurationsJson(const DurationHistogram& durations);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_HTML_PAGE_KERNELS_H_
