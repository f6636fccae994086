#include "userspace/service/listener_entries.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

namespace rocattach {

absl::StatusOr<pid_t> ListenerEntries::FindThread(pid_t pid) {
  auto session = std::make_unique<ListenerSession>(pid);
  const std::optional<ToolFailure> failure = session->Prepare();
  if (failure.has_value() && failure->reason == "no-listener") {
    return absl::NotFoundError(failure->detail);
  }
  if (failure.has_value()) return absl::FailedPreconditionError(failure->detail);
  if (session->sdk_is_loaded()) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", pid,
                     " has loaded rocprofiler-sdk already, for another tool, and that "
                     "attaches no second one"));
  }
  const pid_t thread = session->listener();
  sessions_[pid] = std::move(session);
  return thread;
}

absl::Status ListenerEntries::Enter(pid_t pid, const std::string& library) {
  std::unique_ptr<ListenerSession>& session = sessions_[pid];
  if (session == nullptr) session = std::make_unique<ListenerSession>(pid);
  session->set_tools_are_loaded();
  const std::optional<ToolFailure> failure = session->Attach({library}, {});
  if (!failure.has_value()) return absl::OkStatus();
  if (failure->reason == "listener-busy") {
    return absl::UnavailableError(failure->detail);
  }
  sessions_.erase(pid);
  return absl::FailedPreconditionError(failure->detail);
}

void ListenerEntries::DetachAll() {
  for (const auto& [pid, session] : sessions_) (void)session->Detach();
  sessions_.clear();
}

}  // namespace rocattach
