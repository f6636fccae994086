#include "userspace/service/own_session.h"

#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Longer than a process may take to answer, even if rocprofiler-sdk is added meanwhile.
// A process that ends at once never answers.
constexpr uint64_t kPatienceNs = 10'000'000'000;

}  // namespace

absl::StatusOr<std::unique_ptr<OwnSession>> OwnSession::Start(
    const SessionRequest& request, SessionService* sessions) {
  ASSIGN_OR_RETURN(const uint64_t number, sessions->Start(request));
  return std::unique_ptr<OwnSession>(new OwnSession(request, sessions, number));
}

uint64_t OwnSession::Answers(bool settled, const RunTotals& totals) {
  if (settled) {
    const uint64_t now = BootNs();
    if (settled_ns_ == 0) settled_ns_ = now;
    if (now >= settled_ns_ + kPatienceNs) return UINT64_MAX;
  }
  return sessions_->served() + totals.uncalled;
}

OwnSessionResult OwnSession::Result(const RunTotals& totals) const {
  OwnSessionResult result;
  for (const SessionInfo& info : sessions_->List()) {
    if (info.number == number_) result.session_refused = info.refused_by_all;
  }
  result.session_measures = measures_;
  result.session_too_late =
      measures_ && !has_periods_ && totals.before_session > 0 &&
      totals.dispatches <= totals.before_session &&
      totals.measured + totals.samples + totals.api_calls + totals.memory == 0;
  return result;
}

}  // namespace rocattach
