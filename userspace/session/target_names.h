// The meaning of the numbers in a process's records: kernels, API functions, GPUs.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_NAMES_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_NAMES_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/session_record.h"

namespace rocattach {

// Describes a GPU, for users.
struct GpuName {
  std::string architecture;  // "gfx90a"
  std::string product_name;
  std::string uuid, pci;  // empty: not known
  uint32_t compute_units = 0;
};

// The names of one process. Thread-safe.
class TargetNames {
 public:
  void AddKernel(uint32_t kernel, std::string mangled);
  void AddFunction(TraceDomain domain, uint32_t function, std::string name);
  // In the order of their numbers among the process's GPUs.
  void SetGpus(std::vector<GpuName> gpus);

  // nullopt: not known.
  std::optional<std::string> Kernel(uint32_t kernel) const;
  std::optional<std::string> Function(TraceDomain domain, uint32_t function) const;
  std::vector<GpuName> Gpus() const;

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_map<uint32_t, std::string> kernels_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::pair<TraceDomain, uint32_t>, std::string> functions_
      ABSL_GUARDED_BY(mutex_);
  std::vector<GpuName> gpus_ ABSL_GUARDED_BY(mutex_);
};

// The names of the processes of a session, by their pids in records. Thread-safe.
class SessionTargetNames {
 public:
  void Set(pid_t pid, std::shared_ptr<TargetNames> names);
  void Remove(pid_t pid);
  // nullptr: no such process.
  std::shared_ptr<TargetNames> Find(pid_t pid) const;
  std::shared_ptr<TargetNames> FindOrAdd(pid_t pid);

 private:
  mutable absl::Mutex mutex_;
  std::map<pid_t, std::shared_ptr<TargetNames>> targets_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_TARGET_NAMES_H_
