#include "userspace/record/verdict_notifier.h"

#include "userspace/record/settle_target.h"

namespace rocattach {

void VerdictNotifier::Notify(const Target& target) const {
  if (target.verdict() == Verdict::kOpen) return;
  to_.statistics->CountVerdict(target.verdict());
  if (to_.meters != nullptr) to_.meters->OnVerdict(target.window());
  if (target.verdict() == Verdict::kRefused) RemoveStub(target.opened());
  for (RecorderObserver* observer : *to_.observers) {
    observer->OnVerdict(target.process(), target.window());
  }
  if (to_.on_not_entered != nullptr && MayBeEnteredLater(target.window())) {
    to_.on_not_entered(target.id());
  }
}

// A failed attach must leave nothing behind.
void VerdictNotifier::RemoveStub(const Window& window) const {
  if (to_.stub_remover == nullptr || window.outcome.stub_address == 0) return;
  StubLocation location;
  location.pid = static_cast<pid_t>(window.event.pid);
  location.tid = static_cast<pid_t>(window.event.tid);
  location.start_ns = window.event.start_ns;
  location.address = window.outcome.stub_address;
  location.stack_pointer = window.outcome.stub_stack_pointer;
  location.window_id = window.event.time_ns;
  to_.stub_remover->Remove(location);
}

}  // namespace rocattach
