// A process whose next call of the runtime is awaited: a late attach without a hold.
#ifndef ROCATTACH_USERSPACE_WATCH_LATE_AWAITED_CALL_H_
#define ROCATTACH_USERSPACE_WATCH_LATE_AWAITED_CALL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "bpf/call_events.h"
#include "injector/call_entry.h"

namespace rocattach {

// Occupies one slot in the kernel side's array of calls for as long as it exists. Other
// code sets the process's late probes meanwhile.
class AwaitedCall : public ProbedCall {
 public:
  // `call`: the slot, to which nothing else has a pointer. `give_back` is called at the
  // end, when the kernel side no longer finds the slot.
  AwaitedCall(rocattach_call* call, std::function<void()> give_back);
  ~AwaitedCall() override;
  AwaitedCall(const AwaitedCall&) = delete;
  AwaitedCall& operator=(const AwaitedCall&) = delete;

  // Forgets what was seen: the next call is noted, unless the slot is closed.
  void Await();
  // From now on calls open windows instead.
  void Close();
  // Time of the call at which the thread was stopped (CLOCK_BOOTTIME).
  uint64_t hit_ns() const;

  std::optional<SeenCall> Seen() override;
  bool IsAwaited() override;
  void Arm() override;
  bool IsStopping() override;
  bool Disarm() override;

 private:
  uint32_t state() const;
  // False if the state is not `from`.
  bool Move(rocattach_call_state from, rocattach_call_state to);

  rocattach_call* const call_;
  const std::function<void()> give_back_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_LATE_AWAITED_CALL_H_
