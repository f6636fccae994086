// Passes earlier registrations of libraries to the SDK.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_REGISTRATION_REPLAY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_REGISTRATION_REPLAY_H_

#include <stdint.h>

#include "userspace/collector/common/process.h"

namespace rocattach::collector {

// HIP registers before hsa_init. Libraries that registered before the SDK was loaded are
// not traced until rocprofiler-register passes their tables to it. Not thread-safe.
class RegistrationReplay {
 public:
  // Requests a replay; the worker tries it several times.
  void Request() { attempts_left_ = kAttempts; }
  void Cancel() { attempts_left_ = 0; }
  bool pending() const { return attempts_left_ != 0; }
  // Must not be called inside a registration.
  void Try(Process* process);

 private:
  static constexpr uint32_t kAttempts = 40;
  uint32_t attempts_left_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_SDK_REGISTRATION_REPLAY_H_
