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

#include <stdbool.h>
#include <stdint.h>

// The driver's limit of events per process: more make creation fail, and the runtime
// then goes on with signals that are polled. Ids are from 1 to one less than this.
#define SIMGPU_EVENTS 4096

#define SIMGPU_WAIT_FOREVER UINT32_MAX

// How a wait ended.
enum simgpu_wait { SIMGPU_WAIT_DONE, SIMGPU_WAIT_TIMEOUT, SIMGPU_WAIT_FAILED };

// What the driver keeps of an event's kind: signal events have an age.
enum simgpu_event_kind { SIMGPU_EVENT_SIGNAL, SIMGPU_EVENT_OTHER };

// The id of a new event; 0 if there can be no more.
uint32_t simgpu_event_create(enum simgpu_event_kind kind, bool auto_reset);
// False if there is no event with this id, as with the next two.
bool simgpu_event_destroy(uint32_t id);
bool simgpu_event_set(uint32_t id);
bool simgpu_event_reset(uint32_t id);

// How many threads wait for the event at this instant.
uint32_t simgpu_event_waiters(uint32_t id);

// Waits for one or, with `all`, every event. `milliseconds` may be 0 or
// SIMGPU_WAIT_FOREVER. For callers that keep the events' ages themselves: an age is 1 at
// first, and one more with each set. `ages` has for each event the one that the caller
// knows: a signal event with another one ends the wait, and a wait that is done stores
// the present one. 0, and events of other kinds: what the calling thread has not been
// told. `ages` may be NULL. Fails if an event does not exist, or ends.
enum simgpu_wait simgpu_event_wait(const uint32_t* ids, uint64_t* ages, uint32_t count,
                                   bool all, uint32_t milliseconds);

// The GPU's interrupt: sets the event with this id. Unknown ids are ignored.
void simgpu_event_fire(uint32_t id);

void simgpu_event_before_fork(void);
void simgpu_event_after_fork_parent(void);
void simgpu_event_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_EVENT_H_
