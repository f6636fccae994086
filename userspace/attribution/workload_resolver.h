// Finds out whose processes are, on a thread of its own.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"

namespace rocattach {

// Why less is known of workloads than there was to know: requests, by reason.
struct WorkloadFailures {
  // Too many others waited: nothing was read.
  uint64_t crowded = 0;
  // The process ended before it could be read.
  uint64_t ended = 0;
  // Its control groups or its environment could not be read, or are longer than what
  // is read.
  uint64_t unreadable = 0;
  // Its environment names a job or step that cannot be one, which is ignored.
  uint64_t invalid = 0;
};

// What ReadWorkload() could not use.
struct WorkloadProblems {
  bool unreadable = false, invalid = false;  // as in WorkloadFailures
};

// What can be read of a process in `proc` (a directory as /proc is): its executable,
// container, pod and Slurm job. What cannot be read is empty, and noted in `problems`
// unless that is null. NOT_FOUND if the process has ended, or its number belongs to
// another one.
absl::StatusOr<WorkloadIdentity> ReadWorkload(const ProcessId& process,
                                              const std::string& proc = "/proc",
                                              WorkloadProblems* problems = nullptr);

class WorkloadResolver {
 public:
  // Requests that wait; further ones are counted in failures().crowded.
  static constexpr size_t kMostWaiting = 1024;

  // Called on the resolver's thread, once for each request. Of a process that ended too
  // early, only cgroup_id is known.
  using FoundFunction = std::function<void(const ProcessId&, WorkloadIdentity)>;

  explicit WorkloadResolver(FoundFunction found);
  // Stops.
  ~WorkloadResolver();

  // Does not wait; any thread. `cgroup_id` is what the event of the process says.
  void Request(const ProcessId& process, uint64_t cgroup_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Finishes the current request, and forgets the others.
  void Stop() ABSL_LOCKS_EXCLUDED(mutex_);
  // So far; any thread.
  WorkloadFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts what reading a process came to.
  void Count(bool lives, const WorkloadProblems& problems) ABSL_LOCKS_EXCLUDED(mutex_);

  const FoundFunction found_;
  mutable absl::Mutex mutex_;
  std::deque<std::pair<ProcessId, uint64_t>> waiting_ ABSL_GUARDED_BY(mutex_);
  WorkloadFailures failures_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_
