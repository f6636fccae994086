// A gate that the application's threads pass on their way into a profiler.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_GATE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_GATE_H_

#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/common/process.h"

namespace rocattach::collector {

// Enter() against Close():
//   1. the thread that closes changes the state, and then counts those inside;
//   2. Enter() counts its thread, and then reads the state.
// Both are sequentially consistent, so at least one of them sees the other.
class Gate {
 public:
  enum State : uint32_t {
    kOpen = 0,
    kClosing = 1,  // one thread may still pass, see set_exempt()
    kClosed = 2,
  };

  // Waits while the gate is not open. `inside` counts the threads that have passed and
  // not left; there may be several such counters, so that they do not contend.
  void Enter(uint32_t* inside) {
    __atomic_fetch_add(inside, 1u, __ATOMIC_SEQ_CST);
    if (Unlikely(__atomic_load_n(&state_, __ATOMIC_SEQ_CST) != kOpen)) {
      WaitOutside(inside);
    }
  }
  static void Leave(uint32_t* inside) {
    __atomic_fetch_sub(inside, 1u, __ATOMIC_SEQ_CST);
  }

  // Threads wait until `give_up_ns` at the latest, whatever happens to the thread that
  // is to open the gate again.
  void Close(State state, uint64_t give_up_ns) {
    StoreRelaxed(&give_up_ns_, give_up_ns);
    __atomic_store_n(&state_, static_cast<uint32_t>(state), __ATOMIC_SEQ_CST);
  }
  void Open() {
    __atomic_store_n(&state_, static_cast<uint32_t>(kOpen), __ATOMIC_SEQ_CST);
    FutexWake(&state_);
  }

  // Sets the thread that may pass while the gate is closing: one for
  // which others may be waiting.
  void set_exempt(uint32_t tid) { StoreRelaxed(&exempt_, tid); }

 private:
  // The thread is counted in `inside` before and after this.
  __attribute__((noinline)) void WaitOutside(uint32_t* inside) {
    ErrnoKeeper keep_errno;
    for (;;) {
      const uint32_t state = __atomic_load_n(&state_, __ATOMIC_SEQ_CST);
      const uint64_t now = BootNs();
      const uint64_t give_up = LoadRelaxed(&give_up_ns_);
      if (state == kOpen || now >= give_up || MayPass(state)) return;
      Leave(inside);
      FutexWaitNs(&state_, state, give_up - now);
      __atomic_fetch_add(inside, 1u, __ATOMIC_SEQ_CST);
    }
  }
  bool MayPass(uint32_t state) const {
    // In a forked child no thread opens the gate.
    if (!g_process.guard.Ours()) return true;
    return state == kClosing &&
           LoadRelaxed(&exempt_) == static_cast<uint32_t>(syscall(SYS_gettid));
  }

  uint32_t state_ = kOpen;
  uint32_t exempt_ = 0;
  uint64_t give_up_ns_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_GATE_H_
