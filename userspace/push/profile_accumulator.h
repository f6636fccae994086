// The GPU work of processes that has not been pushed yet, as profiles.
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

// Labels of a workload, by name: node, namespace, pod, pod_uid, container,
// container_id, job_id. Unknown ones are omitted.
using ProfileLabels = std::vector<std::pair<std::string, std::string>>;

// Keeps the growth of the totals in snapshots until it has been pushed, so that nothing
// is lost while a server cannot be reached, in bounded memory. Not thread-safe.
class ProfileAccumulator {
 public:
  // Maximum kernels, of all processes, and processes that are distinguished; further
  // ones are added to "other kernels" and to one process "other processes".
  static constexpr size_t kMostKernels = 100'000;
  static constexpr size_t kMostProcesses = 10'000;

  explicit ProfileAccumulator(std::string node) : node_(std::move(node)) {}

  // Adds the growth since the last call; `now_ns` is wall time.
  void Add(const NodeSnapshot& snapshot, uint64_t now_ns);
  // Workloads that have something to push.
  std::vector<ProfileLabels> Workloads() const;
  // The profile of one of these workloads, since it was last dropped and up to the last
  // call of Add().
  ProfileData Profile(const ProfileLabels& workload, Demangler* demangler) const;
  // Drops a profile that has been pushed, or never will be.
  void Drop(const ProfileLabels& workload);

 private:
  using Key = std::pair<uint32_t, uint64_t>;  // process ID and start
  struct Kernel {
    std::string name;  // mangled
    OperationTotals totals;
  };
  // The totals of one process so far, or their growth.
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
  uint64_t last_ns_ = 0;  // time of the last Add()
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_ACCUMULATOR_H_
