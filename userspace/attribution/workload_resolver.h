// Finds out whose processes are, on a thread of its own.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "userspace/attribution/cgroup_paths.h"
#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"
#include "userspace/base/user_threads.h"

namespace rocattach {

// Why less is known of workloads than there was to know: requests, by reason.
struct WorkloadFailures {
  // Too many others waited: nothing was read.
  uint64_t crowded = 0;
  // The process and its control group were gone before they could be read.
  uint64_t ended = 0;
  // The process was gone, and only its control group could be read: not its
  // environment, where jobs may be.
  uint64_t group_only = 0;
  // Its control groups or its environment could not be read, or are longer than what
  // is read.
  uint64_t unreadable = 0;
  // Its environment names a job or step that cannot be one, which is ignored.
  uint64_t invalid = 0;
};

// What else ReadWorkload() has seen.
struct WorkloadReading {
  bool unreadable = false, invalid = false;  // as in WorkloadFailures
  // Its control group in the unified hierarchy; empty if it is not known.
  std::string cgroup;
};

// What can be read of a process in `proc` (a directory as /proc is): its executable,
// container, pod and Slurm job. What cannot be read is empty, and noted in `reading`
// unless that is null. NOT_FOUND if the process has ended, or its number belongs to
// another one.
absl::StatusOr<WorkloadIdentity> ReadWorkload(const ProcessId& process,
                                              const std::string& proc = "/proc",
                                              WorkloadReading* reading = nullptr);

// Processes are read on threads of their users: the text of an environment lies in the
// memory of its process, which can keep a reader waiting.
class WorkloadResolver {
 public:
  // Requests that wait for the first reading, and that wait to be tried again; further
  // ones are counted in failures().crowded, or not tried again.
  static constexpr size_t kMostWaiting = 1024;

  // Called on the resolver's thread, for each request, and again when more has been
  // found out. Of a process that ended before it was read, what its control group says
  // is known, and cgroup_id.
  using FoundFunction = std::function<void(const ProcessId&, WorkloadIdentity)>;

  struct Options {
    FoundFunction found = nullptr;
    // Adds what is not in the process; true if there is nothing more to be found out.
    // Does not wait. May be null. On the resolver's thread.
    std::function<bool(const ProcessId&, WorkloadIdentity*)> complete = nullptr;
    // What is not complete is tried again after this time, then after twice that, and
    // so on.
    absl::Duration first_pause = absl::Seconds(1);
    int most_tries = 7;
    std::string proc = "/proc";
  };

  explicit WorkloadResolver(FoundFunction found);
  explicit WorkloadResolver(Options options);
  // Stops.
  ~WorkloadResolver();

  // Does not wait; any thread. `cgroup_id` is what the event of the process says.
  void Request(const ProcessId& process, uint64_t cgroup_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Finishes the current requests, and forgets the others. False if a process is still
  // being read after `patience`: this object, and what the options' functions use, must
  // not be destroyed then.
  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // So far; any thread.
  WorkloadFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    ProcessId process = {};
    uint64_t cgroup_id = 0;
    int tries = 0;
    bool was_read = false;  // in this try
    bool is_read = false;   // all that there is in the process, or it has ended
    WorkloadIdentity before = {}, workload = {};  // of the last two tries
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // The next one that is due. False if the resolver stops.
  bool Take(Task* task) ABSL_LOCKS_EXCLUDED(mutex_);
  void Try(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Has the process read on a thread of its user; the task is taken again then.
  void StartReading(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Fills in what the process and its control group say.
  void Read(Task* task) ABSL_LOCKS_EXCLUDED(mutex_, paths_mutex_);

  const Options options_;
  absl::Mutex paths_mutex_;
  CgroupPaths paths_ ABSL_GUARDED_BY(paths_mutex_);
  mutable absl::Mutex mutex_;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, Task> again_ ABSL_GUARDED_BY(mutex_);  // by when
  WorkloadFailures failures_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  UserThreads readers_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_
