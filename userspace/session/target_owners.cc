#include "userspace/session/target_owners.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/session_status.h"
#include "userspace/session/session_handle.h"

namespace rocattach {

absl::Status OwnedBy(absl::string_view what, SessionId owner) {
  absl::Status status =
      SessionError(SessionStatus::kHasActiveSession,
                   absl::StrCat(what, " belongs to session ", Number(owner)));
  SetSessionOwner(Number(owner), &status);
  return status;
}

absl::Status CountersOwnedBy(absl::string_view key, SessionId owner) {
  absl::Status status = SessionError(
      SessionStatus::kHasActiveSession,
      absl::StrCat("the counters of ", absl::StartsWith(key, "GPU") ? "" : "GPU ", key,
                   " belong to session ", Number(owner)));
  SetSessionOwner(Number(owner), &status);
  return status;
}

void TargetOwners::Release(SessionId session) {
  std::erase_if(targets, [&](const auto& entry) { return entry.second == session; });
  std::erase_if(counters, [&](const auto& entry) { return entry.second == session; });
  if (all == session) {
    all = {};
    run_of_all.reset();
  }
}

void TargetOwners::ReleaseTarget(ProcessId target, SessionId session) {
  auto owner = targets.find(target);
  if (owner != targets.end() && owner->second == session) targets.erase(owner);
}

}  // namespace rocattach
