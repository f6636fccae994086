// Releases the tracees of a stopped service (SIGSTOP, ^Z).
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_STOP_GUARD_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_STOP_GUARD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// A traced thread remains stopped until its tracer releases it; nothing else can, and a
// stopped tracer cannot either. So a small separate process, the guard, watches the
// service:
// 1. It checks every few milliseconds whether the service traces any thread: a word in
//    shared memory (TraceGate), which is nearly always 0.
// 2. If so, and the service is stopped, it closes the gate and continues the service,
//    which finishes attaches in progress and releases all tracees within a millisecond.
// 3. It stops the service again and opens the gate. If another process has continued
//    the service meanwhile (its SIGCONT handler counts these), the service is left
//    running.
// Holds in the kernel do not need the guard: they end by themselves when the service
// stops. The guard ends with the service. It has its own process group, so that ^Z in a
// terminal does not stop it too.
class StopGuard {
 public:
  // Starts the guard. A tracee waits for a stopped service for at most `patience_msec`
  // plus some milliseconds. Call it before any thread is traced.
  static absl::StatusOr<std::unique_ptr<StopGuard>> Start(uint32_t patience_msec);
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  pid_t pid() const { return pid_; }

 private:
  StopGuard() = default;

  pid_t pid_ = -1;
  UniqueFd alive_;  // the guard has the other end: closed when the service ends
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_STOP_GUARD_H_
