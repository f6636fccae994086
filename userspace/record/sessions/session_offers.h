// Offers new targets to sessions, and ends their waits.
#ifndef ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_OFFERS_H_
#define ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_OFFERS_H_

#include <cstdint>
#include <map>

#include "userspace/base/process.h"
#include "userspace/record/recorder_observer.h"
#include "userspace/record/target.h"

namespace rocattach {

// A target is offered as soon as it can be described; meanwhile it waits in its OnLoad
// for a session, for a limited time. Not thread-safe.
class SessionOffers {
 public:
  // `observer` is offered the targets; null: there are no sessions, and nothing waits.
  // `longest_wait_ns`: maximum time that a target waits after it was offered.
  SessionOffers(TargetObserver* observer, uint64_t longest_wait_ns)
      : observer_(observer), longest_wait_ns_(longest_wait_ns) {}

  // Offers a target, which has a collector, if this is possible now and has not been
  // done, and ends its wait if that is over. True if the target is waiting.
  bool Update(Target* target, uint64_t now_ns);
  // Update() has nothing to do for this target any more: it has been offered, if there
  // are sessions, and does not wait.
  bool HasServed(const Target& target) const;
  // The target is about to be closed: reports it as missed if it should have been
  // offered and was not.
  void ReportIfMissed(const Target& target);
  // The target has ended.
  void Withdraw(const ProcessId& process);

 private:
  TargetObserver* const observer_;
  const uint64_t longest_wait_ns_;
  // Time of each target's offer.
  std::map<ProcessId, uint64_t> offered_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_SESSIONS_SESSION_OFFERS_H_
