// Copies that the runtime makes asynchronously.
#include <hsa/amd_hsa_signal.h>
#include <hsa/hsa_ext_amd.h>

#include <cstdlib>
#include <mutex>

#include "tests/simrocm/call_log.h"
#include "tests/simrocm/environment.h"
#include "tests/simrocm/sdk/agents.h"
#include "tests/simrocm/sdk/buffer.h"
#include "tests/simrocm/sdk/dispatch.h"
#include "tests/simrocm/sdk/handlers.h"
#include "tests/simrocm/sdk/hsa.h"
#include "tests/simrocm/sdk/signals.h"

namespace simrocm::sdk {
namespace {

// A context that is interested in a copy, and its external correlation id.
struct CopyCapture {
  Context* context;
  const BufferTracing* tracing;
  rocattach_sdk_user_data external;
};

struct Copy {
  rocattach_sdk_memory_copy_record record{};
  std::vector<CopyCapture> captures;
  SignalReference signal;
  hsa_signal_t app_signal{0};
};

int32_t Direction(const rocattach_sdk_agent* source,
                  const rocattach_sdk_agent* destination) {
  auto is_gpu = [](const rocattach_sdk_agent* agent) {
    return agent != nullptr && agent->type == ROCATTACH_SDK_AGENT_GPU;
  };
  if (is_gpu(source)) {
    return is_gpu(destination) ? ROCATTACH_SDK_COPY_DEVICE_TO_DEVICE
                               : ROCATTACH_SDK_COPY_DEVICE_TO_HOST;
  }
  return is_gpu(destination) ? ROCATTACH_SDK_COPY_HOST_TO_DEVICE
                             : ROCATTACH_SDK_COPY_HOST_TO_HOST;
}

amd_signal_t* SignalOf(hsa_signal_t signal) {
  return reinterpret_cast<amd_signal_t*>(signal.handle);  // NOLINT
}

// With SIMROCM_LOSE_COPIES=N, the record of every Nth copy is lost without notice.
bool IsLost() {
  static const unsigned long every = strtoul(  // NOLINT(google-runtime-int)
      GetString("SIMROCM_LOSE_COPIES").c_str(), nullptr, 10);
  static std::atomic<uint64_t> copies{0};
  return every != 0 && ++copies % every == 0;
}

bool OnComplete(hsa_signal_value_t, void* argument) {
  std::unique_ptr<Copy> copy(static_cast<Copy*>(argument));
  hsa_amd_profiling_async_copy_time_t time{};
  AmdExt().hsa_amd_profiling_get_async_copy_time_fn(*copy->signal, &time);
  copy->record.start_timestamp = time.start;
  copy->record.end_timestamp = time.end;
  if (FiniStatus() <= 0 && !IsLost()) {
    for (const CopyCapture& capture : copy->captures) {
      copy->record.correlation_id.external = capture.external;
      capture.tracing->buffer->Emplace(ROCATTACH_SDK_CATEGORY_TRACING,
                                       ROCATTACH_SDK_BUFFER_MEMORY_COPY, &copy->record,
                                       sizeof(copy->record));
    }
  }
  // The application is notified only now, so that its copy is recorded before it
  // continues.
  const hsa_signal_t app_signal = copy->app_signal;
  if (app_signal.handle != 0) {
    // With the times that the runtime would have written into it.
    SignalOf(app_signal)->start_ts = SignalOf(*copy->signal)->start_ts;
    SignalOf(app_signal)->end_ts = SignalOf(*copy->signal)->end_ts;
  }
  copy.reset();
  if (app_signal.handle != 0) Core().hsa_signal_subtract_screlease_fn(app_signal, 1);
  return false;
}

// nullptr if no context is interested in this copy.
std::unique_ptr<Copy> Begin(const void* destination, hsa_agent_t destination_agent,
                            const void* source, hsa_agent_t source_agent,
                            uint64_t bytes, hsa_signal_t app_signal) {
  auto copy = std::make_unique<Copy>();
  rocattach_sdk_memory_copy_record& record = copy->record;
  const rocattach_sdk_agent* from = AgentOf(source_agent);
  const rocattach_sdk_agent* to = AgentOf(destination_agent);
  record.operation = Direction(from, to);
  auto active = ActiveContexts();
  for (Context* context : *active) {
    const BufferTracing* tracing =
        context->FindBufferTracing(ROCATTACH_SDK_BUFFER_MEMORY_COPY, record.operation);
    if (tracing != nullptr) copy->captures.push_back({context, tracing, {}});
  }
  if (copy->captures.empty() || FiniStatus() != 0) return nullptr;
  static std::once_flag enabled;
  std::call_once(enabled,
                 [] { AmdExt().hsa_amd_profiling_async_copy_enable_fn(true); });
  record.size = sizeof(record);
  record.kind = ROCATTACH_SDK_BUFFER_MEMORY_COPY;
  record.correlation_id.internal =
      CurrentCall() != 0 ? CurrentCall() : NextCorrelation();
  for (CopyCapture& capture : copy->captures) {
    capture.external = capture.context->ExternalCorrelation(
        ROCATTACH_SDK_REQUEST_MEMORY_COPY, record.operation,
        record.correlation_id.internal);
  }
  record.thread_id = ThreadId();
  if (to != nullptr) record.dst_agent_id = to->id;
  if (from != nullptr) record.src_agent_id = from->id;
  record.bytes = bytes;
  record.dst_address.ptr = destination;
  record.src_address.ptr = source;
  copy->app_signal = app_signal;
  copy->signal = AcquireSignal();
  return copy;
}

// Passes the copy to its handler; called once the runtime has accepted it.
void Watch(std::unique_ptr<Copy> copy) {
  hsa_signal_t signal = *copy->signal;
  HandleCompletion(signal, OnComplete, copy.release());
}

hsa_status_t AsyncCopy(void* destination, hsa_agent_t destination_agent,
                       const void* source, hsa_agent_t source_agent, size_t size,
                       uint32_t dependency_count, const hsa_signal_t* dependencies,
                       hsa_signal_t completion_signal) {
  auto copy = Begin(destination, destination_agent, source, source_agent, size,
                    completion_signal);
  hsa_status_t status = AmdExt().hsa_amd_memory_async_copy_fn(
      destination, destination_agent, source, source_agent, size, dependency_count,
      dependencies, copy != nullptr ? *copy->signal : completion_signal);
  if (copy != nullptr && status == HSA_STATUS_SUCCESS) Watch(std::move(copy));
  return status;
}

hsa_status_t AsyncCopyRect(const hsa_pitched_ptr_t* destination,
                           const hsa_dim3_t* destination_offset,
                           const hsa_pitched_ptr_t* source,
                           const hsa_dim3_t* source_offset, const hsa_dim3_t* range,
                           hsa_agent_t copy_agent, hsa_amd_copy_direction_t direction,
                           uint32_t dependency_count, const hsa_signal_t* dependencies,
                           hsa_signal_t completion_signal) {
  const bool to_host = direction == hsaDeviceToHost;
  const bool from_host = direction == hsaHostToDevice;
  const hsa_agent_t none{0};
  auto copy =
      Begin(destination->base, to_host ? none : copy_agent, source->base,
            from_host ? none : copy_agent,
            static_cast<uint64_t>(range->x) * range->y * range->z, completion_signal);
  hsa_status_t status = AmdExt().hsa_amd_memory_async_copy_rect_fn(
      destination, destination_offset, source, source_offset, range, copy_agent,
      direction, dependency_count, dependencies,
      copy != nullptr ? *copy->signal : completion_signal);
  if (copy != nullptr && status == HSA_STATUS_SUCCESS) Watch(std::move(copy));
  return status;
}

}  // namespace

void InstallMemoryCopies(HsaApiTable* table) {
  Log("sdk.hsa step=async_copy");
  if (!AnyContextTraces(ROCATTACH_SDK_BUFFER_MEMORY_COPY,
                        ROCATTACH_SDK_CALLBACK_MEMORY_COPY)) {
    return;
  }
  table->amd_ext_->hsa_amd_memory_async_copy_fn = &AsyncCopy;
  table->amd_ext_->hsa_amd_memory_async_copy_rect_fn = &AsyncCopyRect;
}

}  // namespace simrocm::sdk
