// Switches the tracing of memory copies, and waits for those that are under way.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_COPY_SERVICE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_COPY_SERVICE_H_

#include <stdint.h>

#include "userspace/collector/common/ring.h"
#include "userspace/collector/sdk/agents.h"
#include "userspace/collector/sdk/copies.h"
#include "userspace/collector/sdk/service.h"
#include "userspace/collector/sdk/streams.h"

namespace rocattach::collector {

// Not thread-safe. Not on a callback thread of the SDK.
class SdkCopyService {
 public:
  // Creates the context, and the service in it. All must outlive this.
  rocattach_sdk_status Configure(const rocattach_sdk_functions* sdk,
                                 const SdkAgents* agents, Memory* memory,
                                 RingSet* rings, uint64_t* next_correlation,
                                 const SdkStreams* streams);
  rocattach_sdk_context_id context() const { return service_.context; }
  bool on() const { return service_.on; }

  // Records copies with these flags from now on; 0: stops recording.
  rocattach_sdk_status Switch(uint16_t flags);
  // Delivers what has completed.
  void Flush() { copies_.Flush(); }
  // The same, to be called every few milliseconds while it returns true: the SDK may
  // still have to report copies under way. Writes off copies that do not arrive.
  bool Tick(RingHandle* ring);
  // Waits for copies under way, and writes off the rest: nothing arrives any more.
  void SettleAtExit();

 private:
  const rocattach_sdk_functions* sdk_ = nullptr;
  RingSet* rings_ = nullptr;
  SdkService service_;
  SdkCopies copies_;
  uint16_t wanted_ = 0;     // flags of the running service
  uint64_t uncertain_ = 0;  // see SdkCopies::Missing()
  uint64_t missing_ = 0;    // at the last check
  uint64_t progress_ns_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_COPY_SERVICE_H_
