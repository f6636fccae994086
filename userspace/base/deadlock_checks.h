// Abseil's search for potential deadlocks.
#ifndef ROCATTACH_USERSPACE_BASE_DEADLOCK_CHECKS_H_
#define ROCATTACH_USERSPACE_BASE_DEADLOCK_CHECKS_H_

namespace rocattach {

// Turns off the search in this process. Distributions build Abseil with it: it aborts
// the process once two mutexes have been locked in both orders. Code that is built with
// NDEBUG, as ours is, does not tell a library that is not (since Abseil 2023) that a
// mutex has been destroyed; the next mutex at its address then has the old one's order,
// and the search finds deadlocks that cannot occur.
void IgnorePotentialDeadlocks();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_DEADLOCK_CHECKS_H_
