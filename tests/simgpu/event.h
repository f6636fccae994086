// The driver's events. An auto-reset event that is set releases every waiter of that
// instant; the runtime relies on this, because several of its threads wait on one
// event. It then stays set for every thread that was not among them, until that
// thread's next wait. (The older driver keeps it for one thread only, which loses a
// wake-up:
//   1. thread A finds that its signal has not changed, and is preempted before its
//   wait,
//   2. thread B changes the signal and sets the event; nobody waits, the event is set,
//   3. B waits on the same event for A's answer, and consumes the set,
//   4. A waits, and nothing wakes it.
// Drivers since interface 1.14 have an event's age for this, which newer runtimes hand
// in; for those that do not, it is kept for each thread.) Thread-safe.
#ifndef ROCATTACH_TESTS_SIMGPU_EVENT_H_
#define ROCATTACH_TESTS_SIMGPU_EVENT_H_

#include <hsakmt.h>
#include <stdbool.h>
#include <stdint.h>

HSAKMT_STATUS simgpu_event_create(const HsaEventDescriptor* descriptor,
                                  bool manual_reset, bool signaled, HsaEvent** event);
HSAKMT_STATUS simgpu_event_destroy(HsaEvent* event);
HSAKMT_STATUS simgpu_event_set(HsaEvent* event);
HSAKMT_STATUS simgpu_event_reset(HsaEvent* event);
// SUCCESS if the event is set for the calling thread, WAIT_TIMEOUT if not.
HSAKMT_STATUS simgpu_event_query(HsaEvent* event);

// How many threads wait for the event at this instant.
uint32_t simgpu_event_waiters(HsaEvent* event);

// Waits for one or, with `all`, every event. `milliseconds` may be
// HSA_EVENTTIMEOUT_IMMEDIATE or HSA_EVENTTIMEOUT_INFINITE.
HSAKMT_STATUS simgpu_event_wait(HsaEvent* events[], uint32_t count, bool all,
                                uint32_t milliseconds);
// The same for callers that keep the events' ages themselves. An age is 1 at first, and
// one more with each set. `ages` has for each event the one that the caller knows: a
// signal event with another one ends the wait, and a wait that succeeds stores the
// present one. 0, and events of other kinds: as above. `ages` may be NULL.
HSAKMT_STATUS simgpu_event_wait_ages(HsaEvent* events[], uint32_t count, bool all,
                                     uint32_t milliseconds, uint64_t* ages);

// The GPU's interrupt: sets the event with this id. Unknown ids are ignored.
void simgpu_event_fire(uint32_t id);

void simgpu_event_before_fork(void);
void simgpu_event_after_fork_parent(void);
void simgpu_event_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_EVENT_H_
