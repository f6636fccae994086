#include "userspace/collector/sdk/streams.h"

namespace rocattach::collector {

bool SdkStreams::Configure(const rocattach_sdk_functions& sdk, uint32_t version,
                           rocattach_sdk_context_id streams,
                           rocattach_sdk_context_id copies,
                           rocattach_sdk_callback_tracing_cb callback, void* data) {
  if (version < kOldestVersion) return false;
  if (!key_made_ && pthread_key_create(&current_, nullptr) != 0) return false;
  key_made_ = true;
  configured_ = sdk.configure_callback_tracing(
                    streams, ROCATTACH_SDK_CALLBACK_HIP_STREAM, nullptr, 0, callback,
                    data) == ROCATTACH_SDK_STATUS_SUCCESS;
  const int32_t kinds[] = {ROCATTACH_SDK_REQUEST_MEMORY_COPY};
  copies_ = configured_ && copies.handle != 0 && sdk.configure_correlation != nullptr &&
            sdk.configure_correlation(copies, kinds, 1, &OnRequest, this) ==
                ROCATTACH_SDK_STATUS_SUCCESS;
  return configured_;
}

void SdkStreams::OnCallback(const rocattach_sdk_callback_record& record,
                            rocattach_sdk_user_data* user_data) {
  if (!configured_ || record.operation != ROCATTACH_SDK_HIP_STREAM_SET) return;
  StoreRelaxed(&seen_, uint32_t{1});
  const auto set = [this](uint32_t stream) {
    pthread_setspecific(current_, reinterpret_cast<void*>(uintptr_t{stream}));
  };
  if (record.phase == ROCATTACH_SDK_PHASE_EXIT) {
    set(static_cast<uint32_t>(user_data->value));
    return;
  }
  const auto* payload =
      static_cast<const rocattach_sdk_callback_hip_stream*>(record.payload);
  if (record.phase != ROCATTACH_SDK_PHASE_ENTER || payload == nullptr ||
      !ROCATTACH_SDK_HAS(rocattach_sdk_callback_hip_stream, payload, stream_id)) {
    return;
  }
  // Calls may be nested: the outer one's stream comes back at the exit.
  user_data->value = Current();
  set(payload->stream_id < UINT32_MAX ? static_cast<uint32_t>(payload->stream_id) + 1
                                      : 0);
}

int SdkStreams::OnRequest(rocattach_sdk_thread_id, rocattach_sdk_context_id, int32_t,
                          rocattach_sdk_operation, uint64_t,
                          rocattach_sdk_user_data* external, void* self_pointer) {
  external->value = static_cast<const SdkStreams*>(self_pointer)->Current();
  return 0;
}

}  // namespace rocattach::collector
