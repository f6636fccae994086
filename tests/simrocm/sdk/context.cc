#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/sdk/counting.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/interposition.h"
#include "tests/simrocm/sdk/serializer.h"
#include "tests/simrocm/sdk/state.h"

namespace simrocm::sdk {
namespace {

struct Contexts {
  std::mutex mutex;
  ContextList all;
  std::shared_ptr<const ContextList> active = std::make_shared<ContextList>();
  uint32_t initializing_client = 0;
  bool forked_while_counting = false;
};

Contexts& Get() {
  static auto* contexts = new Contexts;
  return *contexts;
}

// Handles are not small numbers, so that a tool that mixes up kinds of ids notices.
constexpr uint64_t kFirstHandle = 0x1a00;

bool Wants(const std::vector<rocattach_sdk_operation>& operations,
           rocattach_sdk_operation operation) {
  return operations.empty() ||
         std::find(operations.begin(), operations.end(), operation) != operations.end();
}

void SetActive(Contexts& contexts, Context* context, bool active) {
  auto list = std::make_shared<ContextList>(*contexts.active);
  std::erase(*list, context);
  if (active) list->push_back(context);
  context->active = active;
  contexts.active = std::move(list);
}

}  // namespace

const BufferTracing* Context::FindBufferTracing(
    int32_t kind, rocattach_sdk_operation operation) const {
  auto found = buffer_tracing.find(kind);
  if (found == buffer_tracing.end()) return nullptr;
  return Wants(found->second.operations, operation) ? &found->second : nullptr;
}

const CallbackTracing* Context::FindCallbackTracing(
    int32_t kind, rocattach_sdk_operation operation) const {
  auto found = callback_tracing.find(kind);
  if (found == callback_tracing.end()) return nullptr;
  return Wants(found->second.operations, operation) ? &found->second : nullptr;
}

rocattach_sdk_user_data Context::ExternalCorrelation(int32_t kind,
                                                     rocattach_sdk_operation operation,
                                                     uint64_t internal) const {
  rocattach_sdk_user_data external{};
  auto found = correlation_requests.find(kind);
  if (found == correlation_requests.end()) return external;
  rocattach_sdk_user_data answer{};
  const CorrelationRequest& request = found->second;
  const bool given = request.callback(ThreadId(), id, kind, operation, internal,
                                      &answer, request.data) == 0;
  return given ? answer : external;
}

std::atomic<int>& InitStatus() {
  static std::atomic<int> status{0};
  return status;
}

std::atomic<int>& FiniStatus() {
  static std::atomic<int> status{0};
  return status;
}

void SetInitializingClient(uint32_t client) {
  Get().initializing_client = client;
}

Context* FindContext(rocattach_sdk_context_id id) {
  Contexts& contexts = Get();
  std::lock_guard lock(contexts.mutex);
  if (id.handle < kFirstHandle || id.handle - kFirstHandle >= contexts.all.size()) {
    return nullptr;
  }
  return contexts.all[id.handle - kFirstHandle];
}

ContextList AllContexts() {
  std::lock_guard lock(Get().mutex);
  return Get().all;
}

std::shared_ptr<const ContextList> ActiveContexts() {
  std::lock_guard lock(Get().mutex);
  return Get().active;
}

bool AnyContextTraces(int32_t buffer_kind, int32_t callback_kind) {
  for (const Context* context : AllContexts()) {
    if (context->buffer_tracing.count(buffer_kind) != 0) return true;
    if (context->callback_tracing.count(callback_kind) != 0) return true;
  }
  return false;
}

bool AnyContextNeedsQueues() {
  if (AnyContextTraces(ROCATTACH_SDK_BUFFER_KERNEL_DISPATCH,
                       ROCATTACH_SDK_CALLBACK_KERNEL_DISPATCH)) {
    return true;
  }
  for (const Context* context : AllContexts()) {
    if (!context->dispatch_counting.empty()) return true;
  }
  return false;
}

rocattach_sdk_status StartContext(Context* context) {
  Contexts& contexts = Get();
  {
    std::lock_guard lock(contexts.mutex);
    for (const Context* other : *contexts.active) {
      if (other == context) return ROCATTACH_SDK_STATUS_SUCCESS;
      if (!context->dispatch_counting.empty() && !other->dispatch_counting.empty()) {
        return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_CONFLICT;
      }
    }
    SetActive(contexts, context, true);
  }
  StartInterposition(*context);
  if (!context->dispatch_counting.empty()) SetBarrier();
  Log("sdk.start_context id=%llu", static_cast<unsigned long long>(context->id.handle));
  return StartDeviceCounting(context);
}

rocattach_sdk_status StopContext(Context* context) {
  Contexts& contexts = Get();
  if (!context->active) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  {
    std::lock_guard lock(contexts.mutex);
    if (!context->active) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
    SetActive(contexts, context, false);
  }
  StopInterposition(*context);
  // Stopping counting waits for dispatches in flight; stopping tracing does not.
  if (!context->dispatch_counting.empty()) {
    SetBarrier();
    DrainDispatches();
  }
  StopDeviceCounting(context);
  Log("sdk.stop_context id=%llu", static_cast<unsigned long long>(context->id.handle));
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

void StopContextsOfClient(uint32_t client) {
  for (Context* context : AllContexts()) {
    if (context->client == client && context->active) StopContext(context);
  }
}

void HoldContextsForFork() {
  Get().mutex.lock();
}

void ReleaseContextsAfterFork(bool child) {
  if (child) {
    for (Context* context : Get().all) {
      if (context->active && !context->dispatch_counting.empty()) {
        Get().forked_while_counting = true;
      }
      context->active = false;
    }
    Get().active = std::make_shared<ContextList>();
  }
  Get().mutex.unlock();
}

void StopInChild() {
  if (!Get().forked_while_counting) return;
  Log("sdk.stop_context_in_child");
  for (;;) pause();
}

uint64_t Now() {
  timespec now;
  clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000ull +
         static_cast<uint64_t>(now.tv_nsec);
}

uint64_t ThreadId() {
  return static_cast<uint64_t>(syscall(SYS_gettid));
}

}  // namespace simrocm::sdk

using namespace simrocm::sdk;

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_create_context(rocattach_sdk_context_id* context) {
  if (context->handle != 0) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_ID_NOT_ZERO;
  if (InitStatus() > -1) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  Contexts& contexts = Get();
  std::lock_guard lock(contexts.mutex);
  auto* created = new Context;
  created->id.handle = kFirstHandle + contexts.all.size();
  created->client = contexts.initializing_client;
  contexts.all.push_back(created);
  *context = created->id;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_start_context(rocattach_sdk_context_id id) {
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  if (FiniStatus() != 0) return ROCATTACH_SDK_STATUS_ERROR_CONFIGURATION_LOCKED;
  return StartContext(context);
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_stop_context(rocattach_sdk_context_id id) {
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  StopInChild();
  if (FiniStatus() > 0) return ROCATTACH_SDK_STATUS_SUCCESS;
  return StopContext(context);
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_context_is_active(rocattach_sdk_context_id id, int* state) {
  *state = 0;
  Context* context = FindContext(id);
  if (context == nullptr) return ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
  *state = context->active ? 1 : 0;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

SIMROCM_EXPORT rocattach_sdk_status
rocprofiler_context_is_valid(rocattach_sdk_context_id id, int* state) {
  *state = FindContext(id) != nullptr ? 1 : 0;
  return *state != 0 ? ROCATTACH_SDK_STATUS_SUCCESS
                     : ROCATTACH_SDK_STATUS_ERROR_CONTEXT_NOT_FOUND;
}
