// Device profiling: the counters of a GPU for all processes that use it.
#ifndef ROCATTACH_USERSPACE_LIBRARY_DEVICE_SESSIONS_H_
#define ROCATTACH_USERSPACE_LIBRARY_DEVICE_SESSIONS_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/session_handle.h"
#include "userspace/session/session_runner.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Thread-safe. Errors carry a SessionStatus. Each session is used by one thread at a
// time; the others wait.
class DeviceSessions {
 public:
  // Its sessions take their numbers from `numbers`, which others may use as well.
  DeviceSessions(std::shared_ptr<SessionRunner> runner,
                 std::shared_ptr<HandleSource::Count> numbers);
  // Stops active sessions.
  ~DeviceSessions();
  DeviceSessions(const DeviceSessions&) = delete;
  DeviceSessions& operator=(const DeviceSessions&) = delete;

  // Of the GPU with this index; errors as SessionRunner::CheckDevice.
  absl::StatusOr<SessionId> Create(std::vector<std::string> counters, int gpu_index);
  absl::Status Start(SessionId session);
  // One value for each counter given to Create, NaN where there is none.
  absl::StatusOr<std::vector<double>> Poll(SessionId session);
  absl::StatusOr<std::vector<std::string>> Counters(SessionId session);
  absl::Status Stop(SessionId session);
  absl::Status Destroy(SessionId session);

 private:
  struct Device {
    std::string gpu_key;
    std::vector<std::string> names;  // as requested
    std::shared_ptr<DeviceRun> run;  // nullptr: not active
    bool busy = false;               // in use by a thread; guarded by mutex_
  };
  class Use;

  absl::StatusOr<std::shared_ptr<Device>> BeginUse(SessionId session)
      ABSL_LOCKS_EXCLUDED(mutex_);
  void EndUse(Device& device) ABSL_LOCKS_EXCLUDED(mutex_);

  const std::shared_ptr<SessionRunner> runner_;
  absl::Mutex mutex_;
  absl::CondVar use_ended_;
  HandleSource handles_ ABSL_GUARDED_BY(mutex_);
  std::map<SessionId, std::shared_ptr<Device>> devices_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_DEVICE_SESSIONS_H_
