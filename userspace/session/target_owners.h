// Which session a process and the counters of a GPU belong to.
#ifndef ROCATTACH_USERSPACE_SESSION_TARGET_OWNERS_H_
#define ROCATTACH_USERSPACE_SESSION_TARGET_OWNERS_H_

#include <map>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "userspace/counters/catalog.h"
#include "userspace/session/session_backend.h"
#include "userspace/session/session_types.h"

namespace rocattach {

class TargetRun;

// Shared by the runs of one runner: a process has at most one active session, and so
// have the counters of a GPU.
struct TargetOwners {
  std::shared_ptr<SessionBackend> backend;        // constant
  std::shared_ptr<const CounterCatalog> catalog;  // constant

  absl::Mutex mutex;
  std::map<ProcessId, SessionId> targets ABSL_GUARDED_BY(mutex);
  // The session for all processes, including future ones, and its run.
  SessionId all ABSL_GUARDED_BY(mutex) = {};
  std::weak_ptr<TargetRun> run_of_all ABSL_GUARDED_BY(mutex);
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

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_TARGET_OWNERS_H_
