// The session that the options of a service request.
#ifndef ROCATTACH_USERSPACE_SERVICE_OWN_SESSION_H_
#define ROCATTACH_USERSPACE_SERVICE_OWN_SESSION_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "userspace/record/run_statistics.h"
#include "userspace/service/session_request.h"
#include "userspace/service/session_service.h"

namespace rocattach {

// Outcome of the session.
struct OwnSessionResult {
  // True if processes were asked to do what the options request, and none could.
  bool session_refused = false;
  // True if the options request a session that measures counters or records calls.
  bool session_measures = false;
  // True if it collected nothing, because the processes had already done their work:
  // they did not wait for it long enough.
  bool session_too_late = false;
};

class OwnSession {
 public:
  // Starts the session. `sessions` must outlive this object.
  static absl::StatusOr<std::unique_ptr<OwnSession>> Start(
      const SessionRequest& request, SessionService* sessions);

  uint64_t number() const { return number_; }

  // Number of processes that have answered whether they do what is requested, or that
  // will answer as soon as they use the GPU again. UINT64_MAX if they take too long,
  // counted from the first call with `settled`, which means that every process has its
  // verdict.
  uint64_t Answers(bool settled, const RunTotals& totals);

  // Called after the sessions have been closed. `totals` are those of the recording.
  OwnSessionResult Result(const RunTotals& totals) const;

 private:
  OwnSession(const SessionRequest& request, SessionService* sessions, uint64_t number)
      : sessions_(sessions),
        number_(number),
        measures_(NeedsSdk(request.filters)),
        has_periods_(!request.periods.empty()) {}

  SessionService* const sessions_;
  const uint64_t number_;
  const bool measures_, has_periods_;
  uint64_t settled_ns_ = 0;  // when each process had its verdict; 0: not yet
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_OWN_SESSION_H_
