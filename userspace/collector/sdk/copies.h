// Memory copies as rocprofiler-sdk reports them.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_COPIES_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_COPIES_H_

#include <stdint.h>

#include "userspace/collector/common/ring.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/streams.h"

namespace rocattach::collector {

// Copies arrive in the SDK's buffer, which the worker flushes every few milliseconds:
// only buffered records have both addresses in every version.
//
// The copies that the SDK delivers are compared with those that the application has
// submitted. The difference is under way, or lost.
class SdkCopies {
 public:
  // Creates the buffer and the service in `context`.
  rocattach_sdk_status Configure(const rocattach_sdk_functions* sdk,
                                 rocattach_sdk_context_id context,
                                 const SdkAgents* agents, Memory* memory,
                                 RingSet* rings, uint64_t* next_correlation,
                                 const SdkStreams* streams);

  // Flags of copies delivered from now on: bits of rocattach_copy.flags.
  void SetFlags(uint16_t flags) { StoreRelease(&flags_, flags); }
  uint16_t flags() const { return LoadRelaxed(&flags_); }

  // Delivers what has completed. Not on a callback thread of the SDK.
  void Flush();

  // Number of submitted copies that have not been delivered. `uncertain` were submitted
  // while the service was switched on or off: the SDK may have them or not.
  uint64_t Missing(uint64_t submitted, uint64_t uncertain) const;
  // Counts missing copies as lost; one that arrives nevertheless is no longer lost.
  void WriteOff(uint64_t missing, RingHandle* ring);
  bool configured() const { return buffer_.handle != 0; }

 private:
  static void OnBuffer(rocattach_sdk_context_id context, rocattach_sdk_buffer_id buffer,
                       rocattach_sdk_record_header** headers, size_t count, void* self,
                       uint64_t dropped);
  void Publish(const rocattach_sdk_memory_copy_record& record, uint16_t flags,
               RingHandle* ring);

  const rocattach_sdk_functions* sdk_ = nullptr;
  const SdkAgents* agents_ = nullptr;
  Memory* memory_ = nullptr;
  RingSet* rings_ = nullptr;
  uint64_t* next_correlation_ = nullptr;
  const SdkStreams* streams_ = nullptr;
  rocattach_sdk_buffer_id buffer_ = {0};
  uint64_t dropped_ = 0;    // as last reported by the SDK
  uint64_t delivered_ = 0;  // or known to be lost
  uint64_t written_off_ = 0;
  uint16_t flags_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_COPIES_H_
