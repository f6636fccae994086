#include "userspace/cli/session_wait.h"

#include <signal.h>

#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

using Stub = ServiceConnection::Stub;

constexpr int kTickMsec = 200;

volatile sig_atomic_t asked_to_stop = 0;

void OnWaitSignal(int) {
  asked_to_stop = 1;
}

}  // namespace

SessionWait::SessionWait(ServiceConnection* service, bool wanted)
    : service_(service), enter_(wanted) {
  if (!wanted) return;
  struct sigaction action = {};
  action.sa_handler = OnWaitSignal;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (int number : {SIGINT, SIGTERM, SIGHUP}) sigaction(number, &action, nullptr);
}

absl::StatusOr<bool> SessionWait::Over(uint64_t session) {
  ASSIGN_OR_RETURN(const v1::GetStatusResponse status,
                   service_->Call(&Stub::AsyncGetStatus, {}));
  for (const v1::SessionStatus& candidate : status.sessions()) {
    if (candidate.session() == session) return candidate.over();
  }
  return true;  // ended so long ago that it is no longer listed
}

absl::Status SessionWait::UntilEnd(uint64_t session) {
  while (asked_to_stop == 0 && !enter_.Pressed(kTickMsec)) {
    ASSIGN_OR_RETURN(const bool over, Over(session));
    if (over) return absl::OkStatus();
  }
  v1::SessionNumber number;
  number.set_session(session);
  const absl::Status stopped = service_->Call(&Stub::AsyncStop, number).status();
  // It may have ended by itself meanwhile.
  return absl::IsNotFound(stopped) ? absl::OkStatus() : stopped;
}

}  // namespace rocattach
