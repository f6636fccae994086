// Completion signals of our own, for packets that carry none.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_SIGNAL_POOL_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_SIGNAL_POOL_H_

#include <hsa/amd_hsa_signal.h>

#include "userspace/collector/hsa/agents.h"
#include "userspace/collector/hsa/functions.h"

namespace rocattach::collector {

// An array of bare amd_signal_t in host memory that every GPU may write. They are never
// passed to the runtime: a packet processor needs only the 64 bytes (HSA Platform
// System Architecture, 2.8, and amd_hsa_signal.h), and without a mailbox it raises no
// interrupt. The memory is never freed, since a packet of a leaked queue may still be
// pending; a second hsa_init allocates again.
class SignalPool {
 public:
  // Allocates `count` signals. HSA's status; nothing is kept on failure.
  hsa_status_t Allocate(const HsaFunctions& hsa, const Agents& agents, uint32_t count);
  bool ready() const { return LoadAcquire(&signals_) != nullptr; }
  void Drop() { StoreRelease(&signals_, static_cast<amd_signal_t*>(nullptr)); }

  amd_signal_t* at(uint32_t index) const { return &signals_[index]; }

  // Makes a signal ready to be decremented once. Every field is written: the runtime
  // may have returned memory that was used before.
  static void Arm(amd_signal_t* s) {
    s->kind = AMD_SIGNAL_KIND_USER;
    s->value = 1;
    s->event_mailbox_ptr = 0;
    s->event_id = 0;
    s->reserved1 = 0;
    s->start_ts = 0;
    s->end_ts = 0;
    s->queue_ptr = nullptr;
  }
  static bool Done(const amd_signal_t* s) {
    return __atomic_load_n(const_cast<const int64_t*>(&s->value), __ATOMIC_ACQUIRE) <=
           0;
  }

  // For unit tests: uses existing memory.
  void Adopt(amd_signal_t* signals) { StoreRelease(&signals_, signals); }

 private:
  amd_signal_t* signals_ = nullptr;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_SIGNAL_POOL_H_
