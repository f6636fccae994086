// Finds the workloads of processes, on a thread of its own.
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

// Number of requests whose workload is incomplete, by reason.
struct WorkloadFailures {
  // Too many other requests were waiting: nothing was read.
  uint64_t crowded = 0;
  // The process and its control group were gone before they could be read.
  uint64_t ended = 0;
  // The process was gone, and only its control group could be read, but not its
  // environment, which may name a job.
  uint64_t group_only = 0;
  // Its control groups or its environment could not be read, or are longer than the
  // limit.
  uint64_t unreadable = 0;
  // Its environment names an invalid job or step, which is ignored.
  uint64_t invalid = 0;
};

// Other findings of ReadWorkload().
struct WorkloadReading {
  bool unreadable = false, invalid = false;  // as in WorkloadFailures
  // Its control group in the unified hierarchy; empty if unknown.
  std::string cgroup;
};

// Reads the executable, container, pod and Slurm job of a process from `proc` (a
// directory like /proc). Fields that cannot be read are empty, which is noted in
// `reading` unless that is null. NOT_FOUND if the process has ended, or its process ID
// belongs to another process.
absl::StatusOr<WorkloadIdentity> ReadWorkload(const ProcessId& process,
                                              const std::string& proc = "/proc",
                                              WorkloadReading* reading = nullptr);

// Processes are read on threads of their users: the text of an environment is in the
// memory of its process, which can block a reader.
class WorkloadResolver {
 public:
  // Limit on requests that wait for the first reading, and on those that wait for
  // another try. More are counted in failures().crowded, or not tried again.
  static constexpr size_t kMostWaiting = 1024;

  // Called on the resolver's thread, for each request, and again when more has been
  // found out. For a process that ended before it was read, only cgroup_id and what the
  // names of its control group tell are known.
  using FoundFunction = std::function<void(const ProcessId&, WorkloadIdentity)>;

  struct Options {
    FoundFunction found = nullptr;
    // Adds what the process does not show; returns true if nothing more can be found
    // out. Does not wait. May be null. Called on the resolver's thread.
    std::function<bool(const ProcessId&, WorkloadIdentity*)> complete = nullptr;
    // An incomplete workload is tried again after this time, then after twice this
    // time, and so on.
    absl::Duration first_pause = absl::Seconds(1);
    int most_tries = 7;
    std::string proc = "/proc";
  };

  explicit WorkloadResolver(FoundFunction found);
  explicit WorkloadResolver(Options options);
  // Stops.
  ~WorkloadResolver();

  // Does not wait; any thread. `cgroup_id` is the one in the event of the process.
  void Request(const ProcessId& process, uint64_t cgroup_id)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Finishes the current requests, and drops the others. Returns false if a process is
  // still being read after `patience`: then this object, and what the options'
  // functions use, must not be destroyed.
  bool Stop(absl::Duration patience) ABSL_LOCKS_EXCLUDED(mutex_);
  // Counts so far; any thread.
  WorkloadFailures failures() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Task {
    ProcessId process = {};
    uint64_t cgroup_id = 0;
    int tries = 0;
    bool was_read = false;                        // in this try
    bool is_read = false;                         // completely, or it has ended
    WorkloadIdentity before = {}, workload = {};  // results of the last two tries
  };

  void Run() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits for the next task that is due. False if the resolver stops.
  bool WaitForTask(Task* task) ABSL_LOCKS_EXCLUDED(mutex_);
  void Try(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Starts reading the process on a thread of its user, which then requeues the task.
  void StartReading(Task task) ABSL_LOCKS_EXCLUDED(mutex_);
  // Fills in what the process and its control group show.
  void Read(Task* task) ABSL_LOCKS_EXCLUDED(mutex_, paths_mutex_);

  const Options options_;
  absl::Mutex paths_mutex_;
  CgroupPaths paths_ ABSL_GUARDED_BY(paths_mutex_);
  mutable absl::Mutex mutex_;
  std::deque<Task> waiting_ ABSL_GUARDED_BY(mutex_);
  std::multimap<absl::Time, Task> again_ ABSL_GUARDED_BY(mutex_);  // by due time
  WorkloadFailures failures_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  UserThreads readers_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_WORKLOAD_RESOLVER_H_
