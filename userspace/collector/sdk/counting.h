// Switches the counting of dispatches.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_COUNTING_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_COUNTING_H_

#include <stdint.h>

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/sdk/abi.h"
#include "userspace/collector/sdk/ring_hold.h"
#include "userspace/collector/sdk/service.h"

namespace rocattach::collector {

// Switches only while no dispatch is in flight: otherwise several versions of the SDK
// block the program. Not thread-safe.
class SdkCounting {
 public:
  // Both must outlive this.
  void Init(const rocattach_sdk_functions* sdk, PlanSet* plans) {
    sdk_ = sdk;
    plans_ = plans;
  }
  // The context in which the service is to be configured.
  rocattach_sdk_context_id& context() { return service_.context; }
  bool on() const { return service_.on; }

  // Starts counting, and leaves dispatches held.
  PlanResult Start(RingHold* hold);
  // Stops counting. If dispatches do not finish, it stays on, but nothing is counted
  // any more: then call this again for as long as retries() is true.
  void Stop();
  bool retries() const { return retry_ns_ != 0; }
  // After us the SDK stops what still runs. If dispatches do not finish, at least none
  // may be on its way into the SDK at that time.
  void StopAtExit();

  // A child in which counting is on would wait in its exit() forever, for dispatches
  // whose end only its parent sees. So it is off at the moment of the fork.
  // Saves whether it is on, in case PauseForFork() is not called or cannot stop it.
  void SaveStateForFork() { on_at_fork_ = service_.on; }
  void PauseForFork();
  void ResumeAfterFork();
  bool on_at_fork() const { return on_at_fork_; }

 private:
  const rocattach_sdk_functions* sdk_ = nullptr;
  PlanSet* plans_ = nullptr;
  SdkService service_;
  // Not 0: counting is to be stopped, and this is the time of the next attempt.
  uint64_t retry_ns_ = 0;
  uint64_t backoff_ns_ = 0;
  bool resumes_ = false;  // after the fork
  bool on_at_fork_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_COUNTING_H_
