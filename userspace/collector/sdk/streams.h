// The HIP stream that a thread works on, as rocprofiler-sdk reports it.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_STREAMS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_STREAMS_H_

#include <pthread.h>
#include <stdint.h>

#include "userspace/abi/atomics.h"
#include "userspace/collector/sdk/abi.h"

namespace rocattach::collector {

// The SDK calls us before and after each function of HIP that names a stream; what the
// thread submits in between belongs to that stream.
class SdkStreams {
 public:
  // SDK 1.0 throws, and so ends the process, at a stream that was created before it saw
  // HIP's functions.
  static constexpr uint32_t kOldestVersion = 10100;

  // Creates the service in `streams`, and adds the stream to the records of copies that
  // `copies` traces. False if this SDK has no streams, or none that are safe.
  bool Configure(const rocattach_sdk_functions& sdk, uint32_t version,
                 rocattach_sdk_context_id streams, rocattach_sdk_context_id copies,
                 rocattach_sdk_callback_tracing_cb callback, void* data);
  bool configured() const { return configured_; }
  // True if HIP's functions are known to reach the SDK.
  bool seen() const { return LoadRelaxed(&seen_) != 0; }

  void OnCallback(const rocattach_sdk_callback_record& record,
                  rocattach_sdk_user_data* user_data);

  // Number of the calling thread's stream plus 1; 0: not known.
  uint32_t Current() const {
    if (!configured_) return 0;
    return static_cast<uint32_t>(
        reinterpret_cast<uintptr_t>(pthread_getspecific(current_)));
  }
  // The same from the external correlation id of a copy.
  uint32_t OfCopy(const rocattach_sdk_async_correlation_id& id) const {
    return copies_ && id.external.value <= UINT32_MAX
               ? static_cast<uint32_t>(id.external.value)
               : 0;
  }

 private:
  static int OnRequest(rocattach_sdk_thread_id thread, rocattach_sdk_context_id context,
                       int32_t kind, rocattach_sdk_operation operation,
                       uint64_t internal, rocattach_sdk_user_data* external,
                       void* self);

  uint32_t seen_ = 0;
  bool configured_ = false;
  bool copies_ = false;
  bool key_made_ = false;
  pthread_key_t current_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_STREAMS_H_
