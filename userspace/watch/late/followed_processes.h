// The processes that may open windows when a service is restricted to some (attach,
// profile): a map that the BPF programs read and extend at fork.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_FOLLOWED_PROCESSES_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_FOLLOWED_PROCESSES_H_

#include <vector>

#include "absl/status/status.h"
#include "userspace/base/process.h"

struct bpf_map;

namespace rocattach {

class FollowedProcesses {
 public:
  // `map` outlives this object.
  explicit FollowedProcesses(const bpf_map* map) : map_(map) {}

  struct Kind {
    bool itself = true;     // this process; otherwise from its next exec on, if at all
    bool children = false;  // all descendants that are started from now on
  };
  absl::Status Add(const ProcessId& process, Kind kind);
  bool Contains(const ProcessId& process) const;
  // May include a process that ended while it was added.
  std::vector<ProcessId> List() const;

 private:
  const bpf_map* map_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_FOLLOWED_PROCESSES_H_
