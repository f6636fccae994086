// The history of the processes that a running service has seen.
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
#include "schemas/sessions.pb.h"
#include "schemas/stream.pb.h"
#include "userspace/attribution/workload.h"
#include "userspace/base/process.h"
#include "userspace/record/recorder_observer.h"

namespace rocattach {

// Verdicts, misses, ends and workloads, by process. Processes that are attached to and
// have not ended are forgotten last; of each kind, the first are forgotten first.
// Thread-safe; no function waits.
class ProcessHistory : public RecorderObserver {
 public:
  struct Limits {
    size_t processes = 16384;
    size_t bytes = 16 << 20;  // of memory, approximately
  };
  // Number of verdicts that are kept of one process, the last ones.
  static constexpr int kMostVerdicts = 8;
  // Limit on texts, that is paths of targets and reasons; longer ones are cut.
  static constexpr size_t kMostTextBytes = 1024;

  ProcessHistory() : ProcessHistory(Limits()) {}
  explicit ProcessHistory(const Limits& limits) : limits_(limits) {}

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when a late attach to the process was not begun.
  void OnNotAttached(const ProcessId& process, absl::string_view why)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Called when the process had no window, or may have had none.
  void OnMissedWindow(const ProcessId& process, absl::string_view reason)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // May come before the verdict, or after the end.
  void SetWorkload(const ProcessId& process, const WorkloadIdentity& workload)
      ABSL_LOCKS_EXCLUDED(mutex_);

  // All processes that had this ID, by start time; the caller has to set `running`.
  v1::GetHistoryResponse Find(pid_t pid) const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t processes() const ABSL_LOCKS_EXCLUDED(mutex_);
  size_t bytes() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Entry {
    v1::ProcessLife life;
    size_t bytes = 0;
    bool is_attached = false;
    std::list<ProcessId>::iterator place;  // in attached_ or others_
  };
  // The entry of the process, created if need be.
  Entry* Touch(const ProcessId& process) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Updates the entry's size and place after a change, and forgets what exceeds the
  // limits.
  void Settle(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ForgetOne() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  std::map<ProcessId, Entry> lives_ ABSL_GUARDED_BY(mutex_);
  // In the order in which they became what they are.
  std::list<ProcessId> attached_ ABSL_GUARDED_BY(mutex_);
  std::list<ProcessId> others_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t forgotten_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_PROCESS_HISTORY_H_
