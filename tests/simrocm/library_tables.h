// The API tables that the simulated parts of HIP, roctx and RCCL register. Those of HIP
// have only some functions, and the SDK's numbers for these are the simulator's own:
// tools have to look functions up by name, as with real SDKs, whose numbers differ
// between versions. The numbers of markers are those of the SDK's public
// enumeration.
#ifndef ROCATTACH_TESTS_SIMROCM_LIBRARY_TABLES_H_
#define ROCATTACH_TESTS_SIMROCM_LIBRARY_TABLES_H_

#include <cstddef>
#include <cstdint>

namespace simrocm {

// Events and the like are pointers, enumerations are ints; dim3 is as in HIP.
struct Dim3 {
  uint32_t x, y, z;
};
// hipStream_t: a distinct type, because the SDK uses it to find streams among the
// arguments.
using Stream = struct StreamObject*;

// X(result, name, number, parameters, arguments)
// clang-format off
#define SIMROCM_HIP_RUNTIME_API(X)                                                      \
  X(int, hipGetDeviceCount, 0, (int* count), (count))                                   \
  X(int, hipGetDevice, 1, (int* device), (device))                                      \
  X(int, hipSetDevice, 2, (int device), (device))                                       \
  X(int, hipGetLastError, 3, (), ())                                                    \
  X(int, hipDeviceSynchronize, 4, (), ())                                               \
  X(int, hipMalloc, 5, (void** pointer, size_t bytes), (pointer, bytes))                \
  X(int, hipFree, 6, (void* pointer), (pointer))                                        \
  X(int, hipHostMalloc, 7, (void** pointer, size_t bytes, unsigned flags),              \
    (pointer, bytes, flags))                                                            \
  X(int, hipHostFree, 8, (void* pointer), (pointer))                                    \
  X(int, hipMemcpy, 9, (void* to, const void* from, size_t bytes, int kind),            \
    (to, from, bytes, kind))                                                            \
  X(int, hipMemcpyAsync, 10,                                                            \
    (void* to, const void* from, size_t bytes, int kind, Stream stream),                 \
    (to, from, bytes, kind, stream))                                                    \
  X(int, hipMemset, 11, (void* to, int value, size_t bytes), (to, value, bytes))        \
  X(int, hipMemsetAsync, 12, (void* to, int value, size_t bytes, Stream stream),         \
    (to, value, bytes, stream))                                                         \
  X(int, hipStreamCreate, 13, (Stream* stream), (stream))                                \
  X(int, hipStreamCreateWithFlags, 14, (Stream* stream, unsigned flags),                 \
    (stream, flags))                                                                    \
  X(int, hipStreamDestroy, 15, (Stream stream), (stream))                                \
  X(int, hipStreamSynchronize, 16, (Stream stream), (stream))                            \
  X(int, hipStreamWaitEvent, 17, (Stream stream, void* event, unsigned flags),           \
    (stream, event, flags))                                                             \
  X(int, hipEventCreate, 18, (void** event), (event))                                   \
  X(int, hipEventCreateWithFlags, 19, (void** event, unsigned flags), (event, flags))   \
  X(int, hipEventDestroy, 20, (void* event), (event))                                   \
  X(int, hipEventRecord, 21, (void* event, Stream stream), (event, stream))              \
  X(int, hipEventSynchronize, 22, (void* event), (event))                               \
  X(int, hipEventElapsedTime, 23, (float* msec, void* begin, void* end),                \
    (msec, begin, end))                                                                 \
  X(int, hipLaunchKernel, 24,                                                           \
    (const void* function, Dim3 blocks, Dim3 block, void** values, size_t shared,       \
     Stream stream),                                                                     \
    (function, blocks, block, values, shared, stream))

#define SIMROCM_HIP_COMPILER_API(X)                                                     \
  X(void**, __hipRegisterFatBinary, 0, (const void* data), (data))                      \
  X(void, __hipUnregisterFatBinary, 1, (void** modules), (modules))                     \
  X(int, __hipPushCallConfiguration, 2,                                                 \
    (Dim3 blocks, Dim3 block, size_t shared, Stream stream),                             \
    (blocks, block, shared, stream))                                                    \
  X(int, __hipPopCallConfiguration, 3,                                                  \
    (Dim3* blocks, Dim3* block, size_t* shared, Stream* stream),                         \
    (blocks, block, shared, stream))

#define SIMROCM_MARKER_CORE_API(X)                                                      \
  X(void, roctxMarkA, 0, (const char* message), (message))                              \
  X(int, roctxRangePushA, 1, (const char* message), (message))                          \
  X(int, roctxRangePop, 2, (), ())                                                      \
  X(uint64_t, roctxRangeStartA, 3, (const char* message), (message))                    \
  X(void, roctxRangeStop, 4, (uint64_t range), (range))                                 \
  X(int, roctxGetThreadId, 5, (uint64_t* thread), (thread))

#define SIMROCM_MARKER_CONTROL_API(X)                                                   \
  X(int, roctxProfilerPause, 0, (uint64_t thread), (thread))                            \
  X(int, roctxProfilerResume, 1, (uint64_t thread), (thread))

#define SIMROCM_MARKER_NAME_API(X)                                                      \
  X(int, roctxNameOsThread, 0, (const char* name), (name))                              \
  X(int, roctxNameHsaAgent, 1, (const char* name, const void* agent), (name, agent))    \
  X(int, roctxNameHipDevice, 2, (const char* name, int device), (name, device))         \
  X(int, roctxNameHipStream, 3, (const char* name, const void* stream), (name, stream))

#define SIMROCM_RCCL_API(X)                                                             \
  X(int, ncclAllGather, 0,                                                              \
    (const void* from, void* to, size_t count, int type, void* comm, void* stream),     \
    (from, to, count, type, comm, stream))                                              \
  X(int, ncclAllReduce, 1,                                                              \
    (const void* from, void* to, size_t count, int type, int operation, void* comm,     \
     void* stream),                                                                     \
    (from, to, count, type, operation, comm, stream))
// clang-format on

#define SIMROCM_MEMBER(result, name, number, parameters, arguments) \
  result(*name##_fn) parameters;  // NOLINT(bugprone-macro-parentheses): a type

struct HipRuntimeTable {
  size_t size;
  SIMROCM_HIP_RUNTIME_API(SIMROCM_MEMBER)
};
struct HipCompilerTable {
  size_t size;
  SIMROCM_HIP_COMPILER_API(SIMROCM_MEMBER)
};
struct MarkerCoreTable {
  size_t size;
  SIMROCM_MARKER_CORE_API(SIMROCM_MEMBER)
};
struct MarkerControlTable {
  size_t size;
  SIMROCM_MARKER_CONTROL_API(SIMROCM_MEMBER)
};
struct MarkerNameTable {
  size_t size;
  SIMROCM_MARKER_NAME_API(SIMROCM_MEMBER)
};
struct RcclTable {
  size_t size;
  SIMROCM_RCCL_API(SIMROCM_MEMBER)
};
#undef SIMROCM_MEMBER

}  // namespace simrocm

#endif  // ROCATTACH_TESTS_SIMROCM_LIBRARY_TABLES_H_
