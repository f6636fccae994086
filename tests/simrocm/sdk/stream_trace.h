// Tracing of HIP streams.
#ifndef ROCATTACH_TESTS_SIMROCM_SDK_STREAM_TRACE_H_
#define ROCATTACH_TESTS_SIMROCM_SDK_STREAM_TRACE_H_

#include "tests/simrocm/library_tables.h"

namespace simrocm::sdk {

// Wraps the functions that have a stream argument.
void InstallStreamTracing(HipRuntimeTable* table);

}  // namespace simrocm::sdk

#endif  // ROCATTACH_TESTS_SIMROCM_SDK_STREAM_TRACE_H_
