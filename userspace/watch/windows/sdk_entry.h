// Enters a running process through rocprofiler-sdk, if the process offers that.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_SDK_ENTRY_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_SDK_ENTRY_H_

#include <sys/types.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/process.h"

namespace rocattach {

// A process that was started with ROCP_TOOL_ATTACH=1 has a thread that makes
// rocprofiler-sdk attach tools. A collector entered in this way can provide what only
// the SDK has, also for queues that existed before.
class SdkEntry {
 public:
  virtual ~SdkEntry() = default;

  // The thread that is to load the collector. NOT_FOUND if there is none;
  // FAILED_PRECONDITION if it cannot be used, for the reason in the message.
  virtual absl::StatusOr<pid_t> FindThread(const ProcessId& process) = 0;
  // Called if a process where FindThread() found one is entered in another way.
  virtual void Forget(const ProcessId& process) = 0;
  // Makes the SDK attach `library`, which the process has loaded under that name, until
  // the end of the recording. Blocks until that has been done. UNAVAILABLE if the
  // thread is doing something else at this moment.
  virtual absl::Status Enter(const ProcessId& process, const std::string& library) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_SDK_ENTRY_H_
