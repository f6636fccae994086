// A stopped service (SIGSTOP, ^Z) keeps nobody standing.
#ifndef ROCATTACH_USERSPACE_WATCH_STOP_GUARD_H_
#define ROCATTACH_USERSPACE_WATCH_STOP_GUARD_H_

#include <sys/types.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// A thread that is traced stands still in its stops until its tracer lets it go, and
// nobody else can do that: a tracer that is stopped cannot, either. So a small process
// of its own looks after the service:
// 1. It looks every few milliseconds whether the service traces anybody; that is a word
//    in shared memory (TraceGate), and nearly always 0.
// 2. If so, and the service is stopped, it closes the gate and continues the service,
//    which finishes what is under way and lets everybody go: a millisecond.
// 3. It stops the service again and opens the gate. If somebody else has continued the
//    service meanwhile (its handler of SIGCONT counts those), that stands.
// Holds in the kernel need none of this: they end by themselves when the service stops.
// The process ends with the service. It has a process group of its own, so that ^Z in a
// terminal does not stop it too.
class StopGuard {
 public:
  // Starts the process. A tracee waits for a stopped service for `patience_msec` at
  // most, and some milliseconds. Call it before any thread is traced.
  static absl::StatusOr<std::unique_ptr<StopGuard>> Start(uint32_t patience_msec);
  ~StopGuard();
  StopGuard(const StopGuard&) = delete;
  StopGuard& operator=(const StopGuard&) = delete;

  pid_t pid() const { return pid_; }

 private:
  StopGuard() = default;

  pid_t pid_ = -1;
  UniqueFd alive_;  // its other end is the process's: closed when the service ends
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_STOP_GUARD_H_
