// Runs sessions on the processes of a SessionBackend.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/counters/catalog.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

// Shared by the runs of one runner: a process has at most one active session, and so
// have the counters of a GPU.
struct TargetOwners {
  std::shared_ptr<SessionBackend> backend;        // constant
  std::shared_ptr<const CounterCatalog> catalog;  // constant

  absl::Mutex mutex;
  std::map<ProcessId, SessionId> targets ABSL_GUARDED_BY(mutex);
  // The session for all processes, including future ones.
  SessionId all ABSL_GUARDED_BY(mutex) = {};
  std::map<std::string, SessionId> counters ABSL_GUARDED_BY(mutex);  // by GPU key

  // Releases what the session owns.
  void Release(SessionId session) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void ReleaseTarget(ProcessId target, SessionId session)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
};

// HAS_ACTIVE_SESSION, with a message for users.
absl::Status OwnedBy(absl::string_view what, SessionId owner);
// The same for the counters of a GPU; its key is a serial number or a PCI address.
absl::Status CountersOwnedBy(absl::string_view key, SessionId owner);

class TargetRunner : public SessionRunner {
 public:
  TargetRunner(std::shared_ptr<SessionBackend> backend,
               std::shared_ptr<const CounterCatalog> catalog);

  absl::Status CheckFilter(const FilterSpec& filter) override;
  absl::StatusOr<ProcessId> FindTarget(pid_t pid) override;
  std::shared_ptr<SessionRun> NewRun(RunSpec spec,
                                     std::shared_ptr<RecordRouter> router) override;
  SessionId AllOwner() const override;
  absl::StatusOr<std::string> CheckDevice(const std::vector<std::string>& counters,
                                          int gpu_index) override;
  absl::StatusOr<std::shared_ptr<DeviceRun>> StartDevice(
      SessionId session, const std::vector<std::string>& counters,
      const std::string& gpu_key) override;

 private:
  const std::shared_ptr<TargetOwners> owners_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_
