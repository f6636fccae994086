// One function call on a thread of the target that only waits for such calls.
#ifndef ROCATTACH_INJECTOR_REMOTE_CALL_H_
#define ROCATTACH_INJECTOR_REMOTE_CALL_H_

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "injector/failure.h"
#include "injector/process/target_memory.h"
#include "injector/stub/call_stub.h"
#include "injector/stub/code_cave.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

class Tracee;

struct RemoteCallRequest {
  pid_t pid = 0;
  pid_t tid = 0;          // blocked in a system call that continues unnoticed
  uint64_t start_ns = 0;  // the process's start, CLOCK_BOOTTIME
  RemoteAddress function;
  std::array<CallArgument, 2> arguments;
  uint64_t purpose = 0;  // for a later injector that finds the stub
  // Code that the thread executes while another attacher's call is under way; the
  // thread cannot be used then.
  RemoteAddress busy_begin, busy_end;
  uint32_t stop_timeout_msec = 5'000;
};

// A call that an earlier injector has left in the target.
struct EarlierCall {
  uint64_t purpose = 0;
  // Its state (of call_frame.h) and its result; empty if the thread's stack has been
  // used since.
  std::optional<CallBlock> block;
};

// A call that is under way, or over. The thread is stopped for some hundred
// microseconds while the call begins, and is no tracee after that: if this process
// dies, at any instant, the thread either never notices or completes the call by
// itself, and in both cases continues its wait.
class RemoteCall {
 public:
  RemoteCall(RemoteCall&&) = default;
  RemoteCall& operator=(RemoteCall&&) = default;

  // Sends the thread to the function, on an OS thread of its own. On failure the target
  // is as it was. kUnsafeContext, retryable: the thread is in a call.
  static StepResult Begin(const RemoteCallRequest& request,
                          std::optional<RemoteCall>* call);

  // Finds the call that an earlier injector has left where the next call would be put,
  // without stopping anything; empty if there is none.
  static StepResult FindEarlier(const RemoteCallRequest& request,
                                std::optional<EarlierCall>* earlier);

  enum class State { kReturned, kRunning, kGone, kCancelled };
  // Waits until the function has returned, the process has ended or runs another
  // program (kGone), `cancelled` returns true, or until `deadline_ns` (CLOCK_MONOTONIC;
  // kRunning).
  State Wait(uint64_t deadline_ns, const std::function<bool()>& cancelled = nullptr);
  // rax, after kReturned.
  uint64_t result() const { return result_; }

  // Waits until the thread is back in its wait, and removes arguments and stub, or with
  // `keep_stub` only the arguments, while the thread is stopped there for some ten
  // microseconds: a running thread might use this part of its stack. False if not
  // everything was removed: the thread was not back in time, or could not be stopped.
  bool Clear(bool keep_stub);

 private:
  friend class RemoteCallRun;

  RemoteCall(TargetMemory memory, const RemoteCallRequest& request)
      : memory_(std::move(memory)),
        pid_(request.pid),
        tid_(request.tid),
        start_ns_(request.start_ns) {}
  bool IsBack() const;
  bool WaitUntilBack() const;
  StepResult StopInWait(Tracee* tracee) const;
  StepResult ClearStopped(bool keep_stub) const;

  TargetMemory memory_;
  pid_t pid_;
  pid_t tid_;
  uint64_t start_ns_;  // the process's start
  CodeCave cave_;
  BuiltCall built_;
  uint64_t stack_pointer_ = 0;  // the thread's, in its wait
  uint64_t result_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_REMOTE_CALL_H_
