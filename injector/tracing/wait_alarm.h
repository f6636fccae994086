// Ends a blocking wait call of the calling thread in time.
#ifndef ROCATTACH_INJECTOR_TRACING_WAIT_ALARM_H_
#define ROCATTACH_INJECTOR_TRACING_WAIT_ALARM_H_

#include <time.h>

#include <cstdint>

namespace rocattach {

// The kernel has no wait call with a timeout. Polling costs a held thread time on a CPU
// that both share: the thread runs only while its tracer sleeps, and a sleep that is
// long enough is nearly always too long. So the tracer blocks, and a per-thread timer
// interrupts the call: the signal has a handler that does nothing, without SA_RESTART.
//
// The signal is SIGRTMAX - 4; if the program has a handler of its own there, nothing is
// installed and Arm returns false.
class WaitAlarm {
 public:
  // The calling thread's own; lives as long as the thread.
  static WaitAlarm& OfThisThread();

  WaitAlarm(const WaitAlarm&) = delete;
  WaitAlarm& operator=(const WaitAlarm&) = delete;
  ~WaitAlarm();

  // Interrupts this thread's system calls with EINTR after `after_ns`, and then every
  // 20 milliseconds, because the first signal may arrive right before the call. False:
  // not possible.
  bool Arm(uint64_t after_ns);
  void Disarm();

 private:
  WaitAlarm();

  bool usable_ = false;
  timer_t timer_ = {};
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TRACING_WAIT_ALARM_H_
