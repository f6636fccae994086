// Tracing of HIP, markers and RCCL.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_LIBRARY_TRACE_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_LIBRARY_TRACE_H_

#include <cstdint>

namespace simrocm::sdk {

// Wraps the functions that some context traces. `name` is as registered; false for a
// library whose functions are not traced.
bool InstallLibraryTracing(const char* name, void** tables, uint64_t count);

// nullptr if there is none. The kinds are the same for buffers and callbacks.
const char* LibraryOperationName(int32_t kind, int32_t operation);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_LIBRARY_TRACE_H_
