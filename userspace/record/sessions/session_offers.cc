#include "userspace/record/sessions/session_offers.h"

#include <optional>
#include <utility>

namespace rocattach {

bool SessionOffers::Update(Target* target, uint64_t now_ns) {
  if (observer_ == nullptr) {
    target->AcknowledgeMapped();
    return false;
  }
  const ProcessId id = target->id();
  auto offered = offered_.find(id);
  if (offered == offered_.end()) {
    std::optional<TargetDescription> description =
        target->session()->Describe(target->opened().sdk_missing);
    if (description.has_value()) {
      offered = offered_.emplace(id, now_ns).first;
      observer_->OnTargetReady(id, *std::move(description), !target->acknowledged());
    }
  }
  if (target->acknowledged()) return false;
  // The process never waits longer than this, whatever sessions do. Its wait begins
  // when it can be described, which may be long after its window has opened: it loads
  // rocprofiler-sdk first.
  const bool waits = offered != offered_.end();
  const uint64_t begin_ns = waits ? offered->second : target->opened().event.time_ns;
  const bool expired = now_ns > begin_ns + longest_wait_ns_;
  if (waits && expired) target->AcknowledgeMapped();
  return !expired;
}

bool SessionOffers::HasServed(const Target& target) const {
  return target.acknowledged() &&
         (observer_ == nullptr || offered_.contains(target.id()));
}

void SessionOffers::ReportIfMissed(const Target& target) {
  if (observer_ == nullptr || offered_.contains(target.id())) return;
  const bool recorded = target.verdict() == Verdict::kAttached && target.has_memory() &&
                        target.memory()->backend_named();
  if (recorded) observer_->OnTargetMissed(target.id());
}

void SessionOffers::Withdraw(const ProcessId& process) {
  if (offered_.erase(process) > 0) observer_->OnTargetGone(process);
}

}  // namespace rocattach
