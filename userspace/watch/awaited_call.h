// A process whose next call of the runtime is awaited, for a late attach without a hold.
#ifndef ROCATTACH_USERSPACE_WATCH_AWAITED_CALL_H_
#define ROCATTACH_USERSPACE_WATCH_AWAITED_CALL_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "bpf/call_events.h"
#include "injector/call_entry.h"

namespace rocattach {

// One place in the kernel side's array of calls, taken for as long as this exists. The
// process's late probes are set meanwhile, by others.
class AwaitedCall : public ProbedCall {
 public:
  // `call`: the place, of which nobody else has a pointer. `give_back` is called at the
  // end, when the kernel side no longer finds the place.
  AwaitedCall(rocattach_call* call, std::function<void()> give_back);
  ~AwaitedCall() override;
  AwaitedCall(const AwaitedCall&) = delete;
  AwaitedCall& operator=(const AwaitedCall&) = delete;

  // Forgets what was seen: the next call is noted, unless the place is closed.
  void Await();
  // From now on calls open windows instead.
  void Close();
  // When the call was made that has stopped the thread (CLOCK_BOOTTIME).
  uint64_t hit_ns() const;

  std::optional<SeenCall> Seen() override;
  bool IsAwaited() override;
  void Arm() override;
  bool IsStopping() override;
  bool Disarm() override;

 private:
  uint32_t state() const;
  // False if the state is another one.
  bool Move(rocattach_call_state from, rocattach_call_state to);

  rocattach_call* const call_;
  const std::function<void()> give_back_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_AWAITED_CALL_H_
