// Merges what several readers find out about the workload of a process.
#ifndef ROCATTACH_USERSPACE_SERVICE_KNOWN_WORKLOADS_H_
#define ROCATTACH_USERSPACE_SERVICE_KNOWN_WORKLOADS_H_

#include <cstddef>
#include <functional>
#include <list>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"

namespace rocattach {

// The workload that was read when a process opened its window, and the one that its
// GPUs show later, must not replace each other. Thread-safe.
class KnownWorkloads {
 public:
  // Maximum number of processes; those that were added first are forgotten first.
  static constexpr size_t kMost = 8192;
  // Does not wait. Called with a lock held, so that a newer workload comes later.
  using PublishFunction =
      std::function<void(const ProcessId&, const WorkloadIdentity&)>;

  explicit KnownWorkloads(PublishFunction publish) : publish_(std::move(publish)) {}

  // Adds the workload of a process that has opened a window, and publishes it.
  void AddFromWindow(const ProcessId& process, const WorkloadIdentity& workload)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // The same for any process that uses a GPU; published once it has opened a window.
  void AddFromGpus(const ProcessId& process, const WorkloadIdentity& workload)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    WorkloadIdentity workload;
    bool published = false;
    std::list<ProcessId>::iterator place;  // in order_
  };
  void Add(const ProcessId& process, const WorkloadIdentity& workload, bool has_window)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const PublishFunction publish_;
  absl::Mutex mutex_;
  std::map<ProcessId, Entry> entries_ ABSL_GUARDED_BY(mutex_);
  std::list<ProcessId> order_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_KNOWN_WORKLOADS_H_
