// Runs sessions on the processes of a SessionBackend.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_RUNNER_H_

#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "userspace/counters/catalog.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_runner.h"

namespace rocattach {

// What the runs of one runner share: a process has at most one active session, and so
// have the counters of a GPU.
struct TargetOwners {
  std::shared_ptr<SessionBackend> backend;        // constant
  std::shared_ptr<const CounterCatalog> catalog;  // constant

  std::mutex mutex;  // guards what stands below
  std::map<TargetId, SessionId> targets;
  SessionId all = {};  // the session for all processes, those to come included
  std::map<std::string, SessionId> counters;  // by the GPU's key

  // The following want the mutex held. Gives up what the session owns.
  void Release(SessionId session);
  void ReleaseTarget(TargetId target, SessionId session);
};

// HAS_ACTIVE_SESSION, in words.
absl::Status OwnedBy(absl::string_view what, SessionId owner);
// The same for the counters of a GPU; its key is a serial number or a PCI address.
absl::Status CountersOwnedBy(absl::string_view key, SessionId owner);

class TargetRunner : public SessionRunner {
 public:
  TargetRunner(std::shared_ptr<SessionBackend> backend,
               std::shared_ptr<const CounterCatalog> catalog);

  absl::Status CheckFilter(const FilterSpec& filter) override;
  absl::StatusOr<TargetId> FindTarget(pid_t pid) override;
  std::shared_ptr<SessionRun> NewRun(RunWish wish,
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
