// Named places at which the fault-injection build dies, fails or waits. The installed
// library contains none of this.
#ifndef ROCATTACH_INJECTOR_FAULT_H_
#define ROCATTACH_INJECTOR_FAULT_H_

#include <cstddef>

namespace rocattach {

#ifdef ROCATTACH_FAULTS
inline constexpr bool kFaultsBuiltIn = true;
// The environment selects what happens: ROCATTACH_FAULT=die-NAME kills this process
// here, fail-NAME makes the step fail (returns true), delay-ms=N waits at every place.
bool FaultAt(const char* name);
#else
inline constexpr bool kFaultsBuiltIn = false;
constexpr bool FaultAt(const char*) {
  return false;
}
#endif

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_FAULT_H_
