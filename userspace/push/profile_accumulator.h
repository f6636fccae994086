// What processes have done on GPUs since it was last pushed, as profiles.
#ifndef ROCATTACH_USERSPACE_PUSH_PROFILE_ACCUMULATOR_H_
#define ROCATTACH_USERSPACE_PUSH_PROFILE_ACCUMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "userspace/attribution/workload.h"
#include "userspace/base/demangler.h"
#include "userspace/export/profile/profile_data.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// Labels of a workload, by name: node, namespace, pod, container, job_id. What is not
// known is not among them.
using ProfileLabels = std::vector<std::pair<std::string, std::string>>;

// Snapshots have totals. Their growth is kept until it has been pushed, so that nothing
// is lost while a server cannot be reached, in bounded memory. Not thread-safe.
class ProfileAccumulator {
 public:
  // Kernels of all processes that are distinguished, and processes; what is beyond them
  // is added to `other kernels`, and to one process without a name.
  static constexpr size_t kMostKernels = 100'000;
  static constexpr size_t kMostProcesses = 10'000;

  explicit ProfileAccumulator(std::string node) : node_(std::move(node)) {}

  // Adds what has been done since the last call; `now_ns` is wall time.
  void Add(const NodeSnapshot& snapshot, uint64_t now_ns);
  // Workloads with anything to push.
  std::vector<ProfileLabels> Workloads() const;
  // The profile of one of them: from when it was last taken until the last call of
  // Add().
  ProfileData Profile(const ProfileLabels& workload, Demangler* demangler) const;
  // It has been pushed, or never will be.
  void Drop(const ProfileLabels& workload);

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // number and start of a process
  struct Kernel {
    std::string name;  // mangled
    OperationTotals totals;
  };
  // Of one process; totals so far, or their growth.
  struct Totals {
    std::map<uint64_t, Kernel> kernels;  // by id
    OperationTotals other;
    std::map<size_t, uint64_t> copied_bytes;  // by direction
    bool empty() const {
      return kernels.empty() && other.dispatches == 0 && copied_bytes.empty();
    }
  };
  struct Process {
    std::string comm;
    WorkloadIdentity workload;
    Totals growth;
    uint64_t begin_ns = 0;
  };

  ProfileLabels LabelsOf(const WorkloadIdentity& workload) const;
  Process* PendingOf(const ProcessSnapshot& process, uint64_t begin_ns);
  void AddGrowth(const ProcessSnapshot& process, Totals* before, Process* to);

  const std::string node_;
  std::map<Key, Totals> before_;
  std::map<Key, Process> pending_;
  size_t kernels_ = 0;    // in pending_
  uint64_t last_ns_ = 0;  // of the last Add()
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_ACCUMULATOR_H_
