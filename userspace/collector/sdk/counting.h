// Switches the counting of dispatches.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_COUNTING_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_COUNTING_H_

#include <stdint.h>

#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/sdk/abi.h"
#include "userspace/collector/sdk/ring_hold.h"
#include "userspace/collector/sdk/service.h"

namespace rocattach::collector {

// Only while no dispatch is in flight: with some, several versions of the SDK block the
// program. Not thread-safe.
class SdkCounting {
 public:
  // Both must outlive this.
  void Init(const rocattach_sdk_functions* sdk, PlanSet* plans) {
    sdk_ = sdk;
    plans_ = plans;
  }
  // Where the service is to be configured.
  rocattach_sdk_context_id& context() { return service_.context; }
  bool on() const { return service_.on; }

  // Starts it, and leaves dispatches held.
  PlanResult Start(RingHold* hold);
  // If dispatches do not finish, counting stays on, but nothing is counted any more:
  // then it is to be called again, as long as `retries`.
  void Stop();
  bool retries() const { return retry_ns_ != 0; }
  // After us the SDK stops what still runs. If dispatches do not finish, at least none
  // must be on its way into the SDK then.
  void StopAtExit();

  // A child in which counting is on waits in its exit() forever, for dispatches that
  // only its parent sees the end of. So it is off in the instant of the fork.
  // Notes whether it is on, in case that PauseForFork() is not called or cannot stop it.
  void NoteFork() { on_at_fork_ = service_.on; }
  void PauseForFork();
  void ResumeAfterFork();
  bool on_at_fork() const { return on_at_fork_; }

 private:
  const rocattach_sdk_functions* sdk_ = nullptr;
  PlanSet* plans_ = nullptr;
  SdkService service_;
  // It is to be stopped as soon as that is possible.
  uint64_t retry_ns_ = 0;
  uint64_t backoff_ns_ = 0;
  bool resumes_ = false;  // after the fork
  bool on_at_fork_ = false;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_COUNTING_H_
