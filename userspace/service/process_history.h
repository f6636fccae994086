// What a running service remembers of the processes that it has seen.
#ifndef ROCATTACH_USERSPACE_SERVICE_PROCESS_HISTORY_H_
#define ROCATTACH_USERSPACE_SERVICE_PROCESS_HISTORY_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "schemas/control.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"

namespace rocattach {

// Verdicts, misses, ends and workloads, by process. The processes that were seen first
// are forgotten first, whether they live or not. Thread-safe; nothing waits.
class ProcessHistory {
 public:
  struct Limits {
    size_t processes = 16384;
    size_t bytes = 16 << 20;  // of memory, about
  };
  // Of the verdicts of one process, the last ones.
  static constexpr int kMostVerdicts = 8;
  // Longer texts are cut: paths of targets and reasons.
  static constexpr size_t kMostTextBytes = 1024;

  ProcessHistory() : ProcessHistory(Limits()) {}
  explicit ProcessHistory(const Limits& limits) : limits_(limits) {}

  void NoteVerdict(const v1::Process& process, const v1::WindowEvent& verdict)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteEnd(const v1::Process& process, const v1::ProcessEnd& end)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // A late attach to the process was not begun.
  void NoteNotAttached(const ProcessId& process, absl::string_view why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // It had no window, or may have had none.
  void NoteMissedWindow(const ProcessId& process, absl::string_view reason)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // May come before the verdict, or after the end.
  void NoteWorkload(const ProcessId& process, const WorkloadIdentity& workload)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // All lives of this number by start time. `running` is not set: the caller knows.
  v1::GetHistoryResponse Find(pid_t pid) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t processes() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    v1::ProcessLife life;
    size_t bytes = 0;
    std::list<ProcessId>::iterator place;  // in order_
  };
  // The entry of the process, created if need be.
  Entry* Touch(const ProcessId& process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Measures the entry after a change, and forgets what exceeds the limits.
  void Settle(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  std::map<ProcessId, Entry> lives_ ABSL_GUARDED_BY(mutex_);
  std::list<ProcessId> order_ ABSL_GUARDED_BY(mutex_);  // first seen first
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_PROCESS_HISTORY_H_
