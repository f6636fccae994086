// Groups of kernels by name (attention, GEMM and so on), from files of users.
#ifndef ROCATTACH_USERSPACE_REPORT_KERNEL_GROUPS_H_
#define ROCATTACH_USERSPACE_REPORT_KERNEL_GROUPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/base/duration_histogram.h"
#include "userspace/report/report.h"

namespace re2 {
class RE2;
}

namespace rocattach {

class KernelGroups {
 public:
  KernelGroups();
  ~KernelGroups();

  // Appends the groups of a YAML or JSON file to the known ones: each key is a group,
  // its value a list of regular expressions. Expressions of a group that is known
  // already are added to it.
  absl::Status AddFile(const std::string& path);

  bool empty() const { return groups_.empty(); }
  // The first group with an expression that matches a part of the name, mangled or not;
  // empty if there is none.
  absl::string_view Find(absl::string_view name, absl::string_view mangled) const;

 private:
  struct Group {
    std::string name;
    std::vector<std::unique_ptr<re2::RE2>> patterns;
  };
  std::vector<Group> groups_;
};

struct GroupReport {
  std::string name;      // empty: kernels of no group
  uint64_t kernels = 0;  // different names
  uint64_t count = 0;    // dispatches
  DurationHistogram durations;
};

// The kernels by group, longest total first.
std::vector<GroupReport> GroupKernels(const std::vector<KernelReport>& kernels,
                                      const KernelGroups& groups);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_KERNEL_GROUPS_H_
