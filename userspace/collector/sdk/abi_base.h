/* Identifiers, status codes and enumerations of librocprofiler-sdk.so.1, in our own
 * declarations; see abi.h for what they are part of and how versions are handled.
 */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_BASE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_BASE_H_

#include <stddef.h>
#include <stdint.h>

/* Layouts are checked where they are declared. */
#ifdef __cplusplus
#define ROCATTACH_SDK_SIZE(type, bytes) \
  static_assert(sizeof(struct type) == (bytes), #type ": size of the ABI")
#define ROCATTACH_SDK_OFFSET(type, field, bytes)         \
  static_assert(offsetof(struct type, field) == (bytes), \
                #type "." #field ": offset of the ABI")
#else
#define ROCATTACH_SDK_SIZE(type, bytes) \
  _Static_assert(sizeof(struct type) == (bytes), #type ": size of the ABI")
#define ROCATTACH_SDK_OFFSET(type, field, bytes)          \
  _Static_assert(offsetof(struct type, field) == (bytes), \
                 #type "." #field ": offset of the ABI")
#endif

/* Results of the SDK's functions; an int in the ABI. Same values since SDK 1.0 (ROCm
 * 7.0); 41 was added in 2026. ROCATTACH_SDK_FOR_EACH_STATUS(X) calls X(NAME, value). */
#define ROCATTACH_SDK_FOR_EACH_STATUS(X)  \
  X(SUCCESS, 0)                           \
  X(ERROR, 1)                             \
  X(ERROR_CONTEXT_NOT_FOUND, 2)           \
  X(ERROR_BUFFER_NOT_FOUND, 3)            \
  X(ERROR_KIND_NOT_FOUND, 4)              \
  X(ERROR_OPERATION_NOT_FOUND, 5)         \
  X(ERROR_THREAD_NOT_FOUND, 6)            \
  X(ERROR_AGENT_NOT_FOUND, 7)             \
  X(ERROR_COUNTER_NOT_FOUND, 8)           \
  X(ERROR_CONTEXT_ERROR, 9)               \
  X(ERROR_CONTEXT_INVALID, 10)            \
  X(ERROR_CONTEXT_NOT_STARTED, 11)        \
  X(ERROR_CONTEXT_CONFLICT, 12)           \
  X(ERROR_CONTEXT_ID_NOT_ZERO, 13)        \
  X(ERROR_BUFFER_BUSY, 14)                \
  X(ERROR_SERVICE_ALREADY_CONFIGURED, 15) \
  X(ERROR_CONFIGURATION_LOCKED, 16)       \
  X(ERROR_NOT_IMPLEMENTED, 17)            \
  X(ERROR_INCOMPATIBLE_ABI, 18)           \
  X(ERROR_INVALID_ARGUMENT, 19)           \
  X(ERROR_METRIC_NOT_VALID_FOR_AGENT, 20) \
  X(ERROR_FINALIZED, 21)                  \
  X(ERROR_HSA_NOT_LOADED, 22)             \
  X(ERROR_DIM_NOT_FOUND, 23)              \
  X(ERROR_PROFILE_COUNTER_NOT_FOUND, 24)  \
  X(ERROR_AST_GENERATION_FAILED, 25)      \
  X(ERROR_AST_NOT_FOUND, 26)              \
  X(ERROR_AQL_NO_EVENT_COORD, 27)         \
  X(ERROR_INCOMPATIBLE_KERNEL, 28)        \
  X(ERROR_OUT_OF_RESOURCES, 29)           \
  X(ERROR_CONFIG_NOT_FOUND, 30)           \
  X(ERROR_AGENT_DISPATCH_CONFLICT, 31)    \
  X(INTERNAL_NO_AGENT_CONTEXT, 32)        \
  X(ERROR_SAMPLE_RATE_EXCEEDED, 33)       \
  X(ERROR_NO_PROFILE_QUEUE, 34)           \
  X(ERROR_NO_HARDWARE_COUNTERS, 35)       \
  X(ERROR_AGENT_MISMATCH, 36)             \
  X(ERROR_NOT_AVAILABLE, 37)              \
  X(ERROR_EXCEEDS_HW_LIMIT, 38)           \
  X(ERROR_AGENT_ARCH_NOT_SUPPORTED, 39)   \
  X(ERROR_PERMISSION_DENIED, 40)          \
  X(ERROR_INCOMPATIBLE_REGISTER_VERSION, 41)

enum rocattach_sdk_status_code {
#define ROCATTACH_SDK_STATUS_ENTRY(name, value) ROCATTACH_SDK_STATUS_##name = (value),
  ROCATTACH_SDK_FOR_EACH_STATUS(ROCATTACH_SDK_STATUS_ENTRY)
#undef ROCATTACH_SDK_STATUS_ENTRY
};
typedef int32_t rocattach_sdk_status;

/* Opaque handles; 0 is never a valid context, buffer, agent, counter or config. */
struct rocattach_sdk_id {
  uint64_t handle;
};
typedef struct rocattach_sdk_id rocattach_sdk_context_id;
typedef struct rocattach_sdk_id rocattach_sdk_buffer_id;
typedef struct rocattach_sdk_id rocattach_sdk_agent_id;
typedef struct rocattach_sdk_id rocattach_sdk_queue_id;
typedef struct rocattach_sdk_id rocattach_sdk_counter_id;
typedef struct rocattach_sdk_id rocattach_sdk_counter_config_id;
typedef struct rocattach_sdk_id rocattach_sdk_callback_thread;

typedef uint64_t rocattach_sdk_timestamp; /* CLOCK_BOOTTIME, ns */
typedef uint64_t rocattach_sdk_thread_id; /* gettid() */
typedef int32_t rocattach_sdk_operation;  /* meaning depends on the tracing kind */
typedef uint64_t rocattach_sdk_kernel_id;
typedef uint64_t rocattach_sdk_dispatch_id;
/* One counter at one position of the hardware; only the query functions decode it. */
typedef uint64_t rocattach_sdk_instance_id;
typedef uint64_t rocattach_sdk_dimension_id;

union rocattach_sdk_user_data {
  uint64_t value;
  void* ptr;
};

union rocattach_sdk_address {
  uint64_t value;
  const void* ptr;
};

struct rocattach_sdk_dim3 {
  uint32_t x, y, z;
};

/* Id of an API call. `ancestor` (SDK 1.0) is the call that made this one, or 0. */
struct rocattach_sdk_correlation_id {
  uint64_t internal;
  union rocattach_sdk_user_data external;
  uint64_t ancestor;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_correlation_id, 24);

/* Id of work that runs later: a dispatch or a copy. */
struct rocattach_sdk_async_correlation_id {
  uint64_t internal;
  union rocattach_sdk_user_data external;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_async_correlation_id, 16);

enum rocattach_sdk_agent_type {
  ROCATTACH_SDK_AGENT_CPU = 1,
  ROCATTACH_SDK_AGENT_GPU = 2,
};

/* record_header.category */
enum rocattach_sdk_buffer_category {
  ROCATTACH_SDK_CATEGORY_TRACING = 1,
  ROCATTACH_SDK_CATEGORY_PC_SAMPLING = 2,
  ROCATTACH_SDK_CATEGORY_COUNTERS = 3,
};

/* record_header.kind within CATEGORY_COUNTERS */
enum rocattach_sdk_counter_record_kind {
  ROCATTACH_SDK_COUNTER_RECORD_DISPATCH_HEADER = 1,
  ROCATTACH_SDK_COUNTER_RECORD_VALUE = 2,
};

enum rocattach_sdk_callback_phase {
  ROCATTACH_SDK_PHASE_NONE = 0,
  ROCATTACH_SDK_PHASE_ENTER = 1,
  ROCATTACH_SDK_PHASE_LOAD = 1,
  ROCATTACH_SDK_PHASE_EXIT = 2,
  ROCATTACH_SDK_PHASE_UNLOAD = 2,
};

/* Kinds of callback tracing; later values exist and are not used here. */
enum rocattach_sdk_callback_kind {
  ROCATTACH_SDK_CALLBACK_HSA_CORE_API = 1,
  ROCATTACH_SDK_CALLBACK_HSA_AMD_EXT_API = 2,
  ROCATTACH_SDK_CALLBACK_HSA_IMAGE_EXT_API = 3,
  ROCATTACH_SDK_CALLBACK_HSA_FINALIZE_EXT_API = 4,
  ROCATTACH_SDK_CALLBACK_HIP_RUNTIME_API = 5,
  ROCATTACH_SDK_CALLBACK_HIP_COMPILER_API = 6,
  ROCATTACH_SDK_CALLBACK_MARKER_CORE_API = 7,
  ROCATTACH_SDK_CALLBACK_MARKER_CONTROL_API = 8,
  ROCATTACH_SDK_CALLBACK_MARKER_NAME_API = 9,
  ROCATTACH_SDK_CALLBACK_CODE_OBJECT = 10,
  ROCATTACH_SDK_CALLBACK_SCRATCH_MEMORY = 11,
  ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH = 12,
  ROCATTACH_SDK_CALLBACK_MEMORY_COPY = 13,
  ROCATTACH_SDK_CALLBACK_RCCL_API = 14,
  ROCATTACH_SDK_CALLBACK_OMPT = 15,
  ROCATTACH_SDK_CALLBACK_MEMORY_ALLOCATION = 16,
  ROCATTACH_SDK_CALLBACK_RUNTIME_INITIALIZATION = 17,
  ROCATTACH_SDK_CALLBACK_ROCDECODE_API = 18,
  ROCATTACH_SDK_CALLBACK_ROCJPEG_API = 19,
  ROCATTACH_SDK_CALLBACK_HIP_STREAM = 20,
};

/* Kinds of buffered tracing; record_header.kind within CATEGORY_TRACING. Not the same
 * numbers as the callback kinds from 10 on. */
enum rocattach_sdk_buffer_kind {
  ROCATTACH_SDK_BUFFER_HSA_CORE_API = 1,
  ROCATTACH_SDK_BUFFER_HSA_AMD_EXT_API = 2,
  ROCATTACH_SDK_BUFFER_HSA_IMAGE_EXT_API = 3,
  ROCATTACH_SDK_BUFFER_HSA_FINALIZE_EXT_API = 4,
  ROCATTACH_SDK_BUFFER_HIP_RUNTIME_API = 5,
  ROCATTACH_SDK_BUFFER_HIP_COMPILER_API = 6,
  ROCATTACH_SDK_BUFFER_MARKER_CORE_API = 7,
  ROCATTACH_SDK_BUFFER_MARKER_CONTROL_API = 8,
  ROCATTACH_SDK_BUFFER_MARKER_NAME_API = 9,
  ROCATTACH_SDK_BUFFER_MEMORY_COPY = 10,
  ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH = 11,
  ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY = 12,
  ROCATTACH_SDK_BUFFER_CORRELATION_ID_RETIREMENT = 13,
  ROCATTACH_SDK_BUFFER_RCCL_API = 14,
  ROCATTACH_SDK_BUFFER_OMPT = 15,
  ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION = 16,
  ROCATTACH_SDK_BUFFER_RUNTIME_INITIALIZATION = 17,
};

enum rocattach_sdk_code_object_operation {
  ROCATTACH_SDK_CODE_OBJECT_LOAD = 1,
  ROCATTACH_SDK_CODE_OBJECT_KERNEL_SYMBOL = 2,
  ROCATTACH_SDK_CODE_OBJECT_HOST_KERNEL_SYMBOL = 3,
};

enum rocattach_sdk_copy_operation {
  ROCATTACH_SDK_COPY_HOST_TO_HOST = 1,
  ROCATTACH_SDK_COPY_HOST_TO_DEVICE = 2,
  ROCATTACH_SDK_COPY_DEVICE_TO_HOST = 3,
  ROCATTACH_SDK_COPY_DEVICE_TO_DEVICE = 4,
};

enum rocattach_sdk_hip_stream_operation {
  ROCATTACH_SDK_HIP_STREAM_CREATE = 1,  /* phase NONE, after the call */
  ROCATTACH_SDK_HIP_STREAM_DESTROY = 2, /* phase NONE, after the call */
  ROCATTACH_SDK_HIP_STREAM_SET = 3, /* ENTER and EXIT of a call that names a stream */
};

/* Kinds for which the SDK asks for an external correlation id; later values exist. */
enum rocattach_sdk_correlation_request {
  ROCATTACH_SDK_REQUEST_MEMORY_COPY = 10,
  ROCATTACH_SDK_REQUEST_KERNEL_DISPATCH = 11,
};

enum rocattach_sdk_allocation_operation {
  ROCATTACH_SDK_ALLOCATION_ALLOCATE = 1,
  ROCATTACH_SDK_ALLOCATION_VMEM_ALLOCATE = 2,
  ROCATTACH_SDK_ALLOCATION_FREE = 3,
  ROCATTACH_SDK_ALLOCATION_VMEM_FREE = 4,
};

enum rocattach_sdk_scratch_operation {
  ROCATTACH_SDK_SCRATCH_ALLOC = 1,
  ROCATTACH_SDK_SCRATCH_FREE = 2,
  ROCATTACH_SDK_SCRATCH_ASYNC_RECLAIM = 3,
};

enum rocattach_sdk_dispatch_operation {
  ROCATTACH_SDK_DISPATCH_ENQUEUE = 1,
  ROCATTACH_SDK_DISPATCH_COMPLETE = 2,
};

enum rocattach_sdk_runtime_operation {
  ROCATTACH_SDK_RUNTIME_HSA = 1,
  ROCATTACH_SDK_RUNTIME_HIP = 2,
  ROCATTACH_SDK_RUNTIME_MARKER = 3,
};

/* Operations of MARKER_CORE_API, from the SDK's public enumeration of ROCm 7. MARK,
 * RANGE_PUSH and RANGE_START have a message (callback tracing, first argument). */
enum rocattach_sdk_marker_core_operation {
  ROCATTACH_SDK_MARKER_MARK = 0,
  ROCATTACH_SDK_MARKER_RANGE_PUSH = 1,
  ROCATTACH_SDK_MARKER_RANGE_POP = 2,
  ROCATTACH_SDK_MARKER_RANGE_START = 3,
  ROCATTACH_SDK_MARKER_RANGE_STOP = 4,
};

/* The behaviour of a full buffer. */
enum rocattach_sdk_buffer_policy {
  ROCATTACH_SDK_POLICY_DISCARD = 1,  /* drop and count */
  ROCATTACH_SDK_POLICY_LOSSLESS = 2, /* stop the application until there is room */
};

/* Bits for at_intercept_table_registration. */
enum rocattach_sdk_intercept_table {
  ROCATTACH_SDK_TABLE_HSA = 1,
  ROCATTACH_SDK_TABLE_HIP_RUNTIME = 2,
  ROCATTACH_SDK_TABLE_HIP_COMPILER = 4,
  ROCATTACH_SDK_TABLE_MARKER_CORE = 8,
  ROCATTACH_SDK_TABLE_MARKER_CONTROL = 16,
  ROCATTACH_SDK_TABLE_MARKER_NAME = 32,
};

/* Bits for at_internal_thread_create. */
enum rocattach_sdk_library {
  ROCATTACH_SDK_LIBRARY_SDK = 1,
  ROCATTACH_SDK_LIBRARY_HSA = 2,
  ROCATTACH_SDK_LIBRARY_HIP = 4,
  ROCATTACH_SDK_LIBRARY_MARKER = 8,
};

enum rocattach_sdk_counter_flag {
  ROCATTACH_SDK_COUNTER_FLAG_NONE = 0,
  ROCATTACH_SDK_COUNTER_FLAG_ASYNC = 1,
  ROCATTACH_SDK_COUNTER_FLAG_APPEND_DEFINITION = 2,
};

/* Versions of the structs that query functions fill. */
enum rocattach_sdk_info_version {
  ROCATTACH_SDK_AGENT_INFO_VERSION_0 = 1,
  ROCATTACH_SDK_COUNTER_INFO_VERSION_0 = 1,
  ROCATTACH_SDK_COUNTER_INFO_VERSION_1 = 2,
};

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_BASE_H_ */
