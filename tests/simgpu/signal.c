#include "tests/simgpu/signal.h"

#include <stddef.h>

#include "tests/simgpu/event.h"

static amd_signal_t* resolve(hsa_signal_t signal) {
  return (amd_signal_t*)(uintptr_t)signal.handle;
}

int64_t simgpu_signal_load(hsa_signal_t signal) {
  return __atomic_load_n(&resolve(signal)->value, __ATOMIC_ACQUIRE);
}

// The mailbox and the event of a signal, read before the value changes.
struct interrupt {
  uint64_t* mailbox;
  uint32_t event_id;
};

static struct interrupt interrupt_of(const amd_signal_t* signal) {
  return (struct interrupt){(uint64_t*)(uintptr_t)signal->event_mailbox_ptr,
                            signal->event_id};
}

static void raise_interrupt(struct interrupt interrupt) {
  if (interrupt.mailbox == NULL) return;
  __atomic_store_n(interrupt.mailbox, interrupt.event_id, __ATOMIC_RELEASE);
  simgpu_event_fire(interrupt.event_id);
}

void simgpu_signal_store(hsa_signal_t signal, int64_t value) {
  amd_signal_t* target = resolve(signal);
  struct interrupt interrupt = interrupt_of(target);
  __atomic_store_n(&target->value, value, __ATOMIC_SEQ_CST);
  raise_interrupt(interrupt);
}

void simgpu_signal_complete(hsa_signal_t signal) {
  if (signal.handle == 0) return;
  amd_signal_t* target = resolve(signal);
  // 1. Read the target of the interrupt. 2. Decrement: from here on a waiter may
  // destroy the signal. 3. Raise the interrupt without another access to the signal.
  struct interrupt interrupt = interrupt_of(target);
  __atomic_fetch_sub(&target->value, 1, __ATOMIC_SEQ_CST);
  raise_interrupt(interrupt);
}

void simgpu_signal_set_times(hsa_signal_t signal, uint64_t start, uint64_t end) {
  if (signal.handle == 0) return;
  amd_signal_t* target = resolve(signal);
  target->start_ts = start;
  target->end_ts = end;
}
