#include "userspace/library/own_sessions.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "userspace/base/session_status.h"
#include "userspace/session/session_handle.h"

namespace rocattach {

void OwnSessions::Add(uint64_t number, SessionId session) {
  absl::MutexLock lock(&mutex_);
  sessions_[number] = session;
}

void OwnSessions::Remove(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(number);
}

absl::Status OwnSessions::Named(const absl::Status& status) const {
  const uint64_t owner = SessionOwnerOf(status);
  if (owner == 0) return status;
  std::string name = absl::StrCat("session ", owner, " of the service");
  {
    absl::MutexLock lock(&mutex_);
    auto own = sessions_.find(owner);
    if (own != sessions_.end()) {
      name = absl::StrCat(HandleName(own->second), " of this program");
    }
  }
  return SessionError(
      SessionStatusOf(status),
      absl::StrReplaceAll(status.message(), {{absl::StrCat("session ", owner), name}}));
}

}  // namespace rocattach
