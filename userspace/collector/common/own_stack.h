// A separate stack for work that needs more stack than the program's call does.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_OWN_STACK_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_OWN_STACK_H_

namespace rocattach::collector {

// Calls the function on a temporary stack with an inaccessible page below it. Signals
// are blocked, except those for faults: a thread that has left its signal stack no
// longer counts as being on it, and the kernel would start another handler at its top,
// over what is there. False, and nothing was called, if there is no memory for it.
bool RunOnOwnStack(void (*function)(void*), void* argument);

template <typename F>
bool OnOwnStack(F function) {
  return RunOnOwnStack([](void* f) { (*static_cast<F*>(f))(); }, &function);
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_OWN_STACK_H_
