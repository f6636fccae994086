// Names of operations that can be traced.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_TRACING_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_TRACING_H_

#include <cstdint>

namespace simrocm::sdk {

// nullptr if there is none. The kinds of HSA are the same for buffers and callbacks.
const char* HsaOperationName(int32_t kind, int32_t operation);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_TRACING_H_
