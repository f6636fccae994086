// Enters processes through their listener, the thread that waits for attachers.
#ifndef ROCATTACH_USERSPACE_SERVICE_LISTENER_ENTRIES_H_
#define ROCATTACH_USERSPACE_SERVICE_LISTENER_ENTRIES_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/base/process.h"
#include "userspace/listener/listener_session.h"
#include "userspace/watch/windows/sdk_entry.h"

namespace rocattach {

// One session of rocprofiler-register for each process. Thread-safe: the calls for a
// process come one at a time. At the end no process waits for another one's answer.
class ListenerEntries : public SdkEntry {
 public:
  ListenerEntries() = default;
  ~ListenerEntries() override { DetachAll(); }

  absl::StatusOr<pid_t> FindThread(const ProcessId& process) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void Forget(const ProcessId& process) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::Status Enter(const ProcessId& process, const std::string& library) override
      ABSL_LOCKS_EXCLUDED(mutex_);

  // Begins to end the sessions, each on a thread of its own, which first runs `before`
  // (may be null). From then on no session begins, and one that is just beginning is
  // not waited for much longer. Does not wait.
  void BeginDetach(const std::function<void(const ProcessId&)>& before)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // Ends all sessions. When this returns, the rings contain what the SDK still had to
  // deliver, for processes that answered in time. After the last call of SdkEntry.
  void DetachAll() ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::atomic<uint64_t> ending_ns_ = 0;  // when the end began; 0: it has not begun
  absl::Mutex mutex_;
  // The sessions of processes that may be entered.
  std::map<ProcessId, std::shared_ptr<ListenerSession>> sessions_
      ABSL_GUARDED_BY(mutex_);
  std::map<ProcessId, std::shared_ptr<ListenerSession>> entered_
      ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread> leaving_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_LISTENER_ENTRIES_H_
