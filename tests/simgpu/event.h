// The driver's events. Setting an auto-reset event releases every waiter of that
// instant; the runtime relies on this, because several of its threads wait on one
// event. The event then stays set for every thread that was not waiting, until that
// thread's next wait. (The older driver keeps it for one thread only, which loses a
// wake-up:
//   1. thread A finds that its signal has not changed, and is preempted before its
//   wait,
//   2. thread B changes the signal and sets the event; no one waits, the event is set,
//   3. B waits on the same event for A's answer, and consumes the set,
//   4. A waits, and nothing wakes it.
// Drivers since interface 1.14 have an age of each event for this, which newer runtimes
// pass; for older runtimes the age is kept per thread.) Thread-safe.
#ifndef ROCATTACH_TESTS_SIMGPU_EVENT_H_
#define ROCATTACH_TESTS_SIMGPU_EVENT_H_

#include <stdbool.h>
#include <stdint.h>

// The driver's limit of events per process: creation fails beyond it, and the runtime
// then continues with signals that are polled. IDs are from 1 to one less than this.
#define SIMGPU_EVENTS 4096

#define SIMGPU_WAIT_FOREVER UINT32_MAX

// The result of a wait.
enum simgpu_wait { SIMGPU_WAIT_DONE, SIMGPU_WAIT_TIMEOUT, SIMGPU_WAIT_FAILED };

// The part of an event's kind that the driver keeps: signal events have an age.
enum simgpu_event_kind { SIMGPU_EVENT_SIGNAL, SIMGPU_EVENT_OTHER };

// Returns the ID of a new event, or 0 if the limit is reached.
uint32_t simgpu_event_create(enum simgpu_event_kind kind, bool auto_reset);
// False if there is no event with this ID, as with the next two.
bool simgpu_event_destroy(uint32_t id);
bool simgpu_event_set(uint32_t id);
bool simgpu_event_reset(uint32_t id);

// Number of threads that wait for the event at this instant.
uint32_t simgpu_event_waiters(uint32_t id);

// Waits for one or, with `all`, every event. `milliseconds` may be 0 or
// SIMGPU_WAIT_FOREVER. For callers that keep the events' ages themselves: an age starts
// at 1 and grows by one with each set. `ages` has the age of each event that the caller
// knows: a signal event with another age ends the wait, and a finished wait stores its
// age. For age 0 and other kinds of events, a set that the thread has not seen ends the
// wait. `ages` may be NULL. Fails if an event does not exist, or ends.
enum simgpu_wait simgpu_event_wait(const uint32_t* ids, uint64_t* ages, uint32_t count,
                                   bool all, uint32_t milliseconds);

// The GPU's interrupt: sets the event with this ID. Unknown IDs are ignored.
void simgpu_event_fire(uint32_t id);

void simgpu_event_before_fork(void);
void simgpu_event_after_fork_parent(void);
void simgpu_event_after_fork_child(void);

#endif  // ROCATTACH_TESTS_SIMGPU_EVENT_H_
