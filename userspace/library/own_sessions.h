// The service's sessions that belong to this program.
#ifndef ROCATTACH_USERSPACE_LIBRARY_OWN_SESSIONS_H_
#define ROCATTACH_USERSPACE_LIBRARY_OWN_SESSIONS_H_

#include <cstdint>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Maps the service's numbers of sessions to this program's handles. Thread-safe.
class OwnSessions {
 public:
  void Add(uint64_t number, SessionId session);
  void Remove(uint64_t number);
  // The error, with the owner named by its handle if it is a session of this program.
  absl::Status Named(const absl::Status& status) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<uint64_t, SessionId> sessions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_OWN_SESSIONS_H_
