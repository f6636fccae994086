// Tracing of HIP and of markers.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_LIBRARY_TRACE_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_LIBRARY_TRACE_H_

#include <cstdint>

namespace simrocm::sdk {

// Puts wrappers around what some context traces. `name` as registered; false: a library
// whose functions are not traced.
bool InstallLibraryTracing(const char* name, void** tables, uint64_t count);

// nullptr if there is none. The kinds are the same for buffers and callbacks.
const char* LibraryOperationName(int32_t kind, int32_t operation);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_LIBRARY_TRACE_H_
