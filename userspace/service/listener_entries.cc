#include "userspace/service/listener_entries.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

// Time limit for a process to answer at the end: what rocprofiler-sdk still delivers
// takes milliseconds, or a few seconds on a busy machine.
constexpr uint32_t kDetachMsec = 5'000;
constexpr uint64_t kLastEntryNs = 2'000'000'000;

std::unique_ptr<ListenerSession> NewSession(pid_t pid) {
  return std::make_unique<ListenerSession>(pid, ToolLimits{.detach_msec = kDetachMsec});
}

}  // namespace

absl::StatusOr<pid_t> ListenerEntries::FindThread(const ProcessId& process) {
  auto session = NewSession(process.pid);
  const std::optional<ToolFailure> failure = session->Prepare();
  if (failure.has_value() && failure->reason == "no-listener") {
    return absl::NotFoundError(failure->detail);
  }
  if (failure.has_value()) return absl::FailedPreconditionError(failure->detail);
  if (session->sdk_is_loaded()) {
    return absl::FailedPreconditionError(
        absl::StrCat("process ", process.pid,
                     " has loaded rocprofiler-sdk already, for another tool, and that "
                     "attaches no second one"));
  }
  // While a process lives, no other process has its ID.
  if (!Lives(process)) return absl::NotFoundError("the process has ended");
  const pid_t thread = session->listener();
  absl::MutexLock lock(&mutex_);
  sessions_[process] = std::move(session);
  return thread;
}

absl::Status ListenerEntries::Enter(const ProcessId& process,
                                    const std::string& library) {
  if (ending_ns_ != 0) return absl::CancelledError("the recording has ended");
  std::shared_ptr<ListenerSession> session;
  {
    absl::MutexLock lock(&mutex_);
    std::shared_ptr<ListenerSession>& known = sessions_[process];
    if (known == nullptr) known = NewSession(process.pid);
    session = known;
  }
  session->set_tools_are_loaded();
  const std::optional<ToolFailure> failure = session->Attach({library}, {}, [this] {
    const uint64_t ending_ns = ending_ns_;
    return ending_ns != 0 && BootNs() - ending_ns >= kLastEntryNs;
  });
  if (!failure.has_value()) {
    absl::MutexLock lock(&mutex_);
    entered_[process] = std::move(session);
    sessions_.erase(process);
    return absl::OkStatus();
  }
  if (failure->reason == "listener-busy") {
    return absl::UnavailableError(failure->detail);
  }
  Forget(process);
  return absl::FailedPreconditionError(failure->detail);
}

void ListenerEntries::Forget(const ProcessId& process) {
  absl::MutexLock lock(&mutex_);
  sessions_.erase(process);
}

void ListenerEntries::BeginDetach(const std::function<void(const ProcessId&)>& before) {
  uint64_t not_yet = 0;
  ending_ns_.compare_exchange_strong(not_yet, BootNs());
  absl::MutexLock lock(&mutex_);
  for (auto& [process, session] : entered_) {
    leaving_.emplace_back([process = process, session = std::move(session), before] {
      if (before != nullptr) before(process);
      (void)session->Detach();
    });
  }
  entered_.clear();
}

void ListenerEntries::DetachAll() {
  BeginDetach(nullptr);
  std::vector<std::thread> leaving;
  {
    absl::MutexLock lock(&mutex_);
    leaving.swap(leaving_);
  }
  for (std::thread& thread : leaving) thread.join();
  absl::MutexLock lock(&mutex_);
  sessions_.clear();
}

}  // namespace rocattach
