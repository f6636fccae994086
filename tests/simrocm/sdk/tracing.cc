// Configuring tracing services, and the names of kinds and operations.
#include "tests/simrocm/sdk/tracing.h"

#include <cstring>
#include <iterator>

#include "tests/simrocm/sdk/api_call.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/library_trace.h"

namespace simrocm::sdk {
namespace {

// By kind; index 0 is not a kind.
constexpr const char* kBufferKinds[] = {"NONE",
                                        "HSA_CORE_API",
                                        "HSA_AMD_EXT_API",
                                        "HSA_IMAGE_EXT_API",
                                        "HSA_FINALIZE_EXT_API",
                                        "HIP_RUNTIME_API",
                                        "HIP_COMPILER_API",
                                        "MARKER_CORE_API",
                                        "MARKER_CONTROL_API",
                                        "MARKER_NAME_API",
                                        "MEMORY_COPY",
                                        "KERNEL_DISPATCH",
                                        "SCRATCH_MEMORY",
                                        "CORRELATION_ID_RETIREMENT",
                                        "RCCL_API",
                                        "OMPT",
                                        "MEMORY_ALLOCATION",
                                        "RUNTIME_INITIALIZATION"};
constexpr int32_t kBufferKindCount = std::size(kBufferKinds);
constexpr int32_t kCallbackKindCount = ROCATTACH_SDK_CALLBACK_HIP_STREAM + 1;

constexpr const char* kCopies[] = {
    "MEMORY_COPY_NONE", "MEMORY_COPY_HOST_TO_HOST", "MEMORY_COPY_HOST_TO_DEVICE",
    "MEMORY_COPY_DEVICE_TO_HOST", "MEMORY_COPY_DEVICE_TO_DEVICE"};
constexpr const char* kAllocations[] = {
    "MEMORY_ALLOCATION_NONE", "MEMORY_ALLOCATION_ALLOCATE",
    "MEMORY_ALLOCATION_VMEM_ALLOCATE", "MEMORY_ALLOCATION_FREE",
    "MEMORY_ALLOCATION_VMEM_FREE"};
constexpr const char* kScratch[] = {"SCRATCH_MEMORY_NONE", "SCRATCH_MEMORY_ALLOC",
                                    "SCRATCH_MEMORY_FREE",
                                    "SCRATCH_MEMORY_ASYNC_RECLAIM"};
constexpr const char* kDispatches[] = {
    "KERNEL_DISPATCH_NONE", "KERNEL_DISPATCH_ENQUEUE", "KERNEL_DISPATCH_COMPLETE"};
constexpr const char* kCodeObjects[] = {"CODE_OBJECT_NONE", "CODE_OBJECT_LOAD",
                                        "CODE_OBJECT_DEVICE_KERNEL_SYMBOL_REGISTER",
                                        "CODE_OBJECT_HOST_KERNEL_SYMBOL_REGISTER"};

constexpr const char* kStreams[] = {"HIP_STREAM_NONE", "HIP_STREAM_CREATE",
                                    "HIP_STREAM_DESTROY", "HIP_STREAM_SET"};

template <size_t kCount>
const char* At(const char* const (&names)[kCount], int32_t index) {
  return index >= 0 && index < static_cast<int32_t>(kCount) ? names[index] : nullptr;
}

const char* ApiOperation(int32_t kind, int32_t operation) {
  const char* name = HsaOperationName(kind, operation);
  return name != nullptr ? name : LibraryOperationName(kind, operation);
}

const char* BufferOperation(int32_t kind, int32_t operation) {
  switch (kind) {
    case ROCATTACH_SDK_BUFFER_MEMORY_COPY:
      return At(kCopies, operation);
    case ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH:
      return At(kDispatches, operation);
    case ROCATTACH_SDK_BUFFER_MEMORY_ALLOCATION:
      return At(kAllocations, operation);
    case ROCATTACH_SDK_BUFFER_SCRATCH_MEMORY:
      return At(kScratch, operation);
    default:
      return ApiOperation(kind, operation);
  }
}

const char* CallbackOperation(int32_t kind, int32_t operation) {
  switch (kind) {
    case ROCATTACH_SDK_CALLBACK_MEMORY_COPY:
      return At(kCopies, operation);
    case ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH:
      return At(kDispatches, operation);
    case ROCATTACH_SDK_CALLBACK_CODE_OBJECT:
      return At(kCodeObjects, operation);
    case ROCATTACH_SDK_CALLBACK_HIP_STREAM:
      return At(kStreams, operation);
    default:
      return ApiOperation(kind, operation);
  }
}

rocattach_sdk_status Answer(const char* value, rocattach_sdk_status missing,
                            const char** name, uint64_t* length) {
  if (name != nullptr) *name = value;
  if (length != nullptr) *length = value != nullptr ? strlen(value) : 0;
  return value != nullptr ? ROCATTACH_SDK_STATUS_SUCCESS : missing;
}

}  // namespace
}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_configure_buffer_tracing_service(
    rocattach_sdk_context_id id, int32_t kind,
    const rocattach_sdk_operation* operations, size_t operation_count,
    rocattach_sdk_buffer_id buffer_id) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  Buffer* buffer = FindBuffer(buffer_id);
  if (buffer == nullptr) return ROCATTACH_SDK_STATUS_ERROR_BUFFER_NOT_FOUND;
  if (kind <= 0 || kind >= kBufferKindCount) {
    return ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND;
  }
  if (context->buffer_tracing.count(kind) != 0) {
    return ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED;
  }
  BufferTracing tracing;
  tracing.buffer = buffer;
  if (operations != nullptr) {
    tracing.operations.assign(operations, operations + operation_count);
  }
  context->buffer_tracing[kind] = std::move(tracing);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_configure_callback_tracing_service(
    rocattach_sdk_context_id id, int32_t kind,
    const rocattach_sdk_operation* operations, size_t operation_count,
    rocattach_sdk_callback_tracing_cb callback, void* callback_data) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  if (kind <= 0 || kind >= kCallbackKindCount) {
    return ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND;
  }
  if (context->callback_tracing.count(kind) != 0) {
    return ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED;
  }
  CallbackTracing tracing;
  tracing.callback = callback;
  tracing.data = callback_data;
  if (operations != nullptr) {
    tracing.operations.assign(operations, operations + operation_count);
  }
  context->callback_tracing[kind] = std::move(tracing);
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_configure_external_correlation_id_request_service(
    rocattach_sdk_context_id id, const int32_t* kinds, size_t kind_count,
    rocattach_sdk_correlation_cb callback, void* data) {
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  if (!context->correlation_requests.empty()) {
    return ROCATTACH_SDK_STATUS_ERROR_SERVICE_ALREADY_CONFIGURED;
  }
  for (size_t i = 0; i < kind_count; ++i) {
    context->correlation_requests[kinds[i]] = {callback, data};
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_iterate_callback_tracing_kind_operation_args(
    rocattach_sdk_callback_record record, rocattach_sdk_argument_cb callback, int32_t,
    void* user_data) {
  if (ApiOperation(record.kind, record.operation) == nullptr) {
    return ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND;
  }
  const auto* call = static_cast<const CallPayload*>(record.payload);
  uint32_t number = 0;
  for (const std::string& text : call->arguments()) {
    const std::string name = "arg" + std::to_string(number);
    if (callback(record.kind, record.operation, number++, &text, 0, "", name.c_str(),
                 text.c_str(), 0, user_data) != 0) {
      break;
    }
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status rocprofiler_query_buffer_tracing_kind_name(
    int32_t kind, const char** name, uint64_t* length) {
  return Answer(At(kBufferKinds, kind), ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND, name,
                length);
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_query_buffer_tracing_kind_operation_name(int32_t kind,
                                                     rocattach_sdk_operation operation,
                                                     const char** name,
                                                     uint64_t* length) {
  if (kind <= 0 || kind >= kBufferKindCount) {
    return Answer(nullptr, ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND, name, length);
  }
  return Answer(BufferOperation(kind, operation),
                ROCATTACH_SDK_STATUS_ERROR_OPERATION_NOT_FOUND, name, length);
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_query_callback_tracing_kind_operation_name(
    int32_t kind, rocattach_sdk_operation operation, const char** name,
    uint64_t* length) {
  if (kind <= 0 || kind >= kCallbackKindCount) {
    return Answer(nullptr, ROCATTACH_SDK_STATUS_ERROR_KIND_NOT_FOUND, name, length);
  }
  return Answer(CallbackOperation(kind, operation),
                ROCATTACH_SDK_STATUS_ERROR_OPERATION_NOT_FOUND, name, length);
}
