// The state change of a traced thread, as reported by waitid.
#ifndef ROCATTACH_INJECTOR_TRACING_WAIT_STATUS_H_
#define ROCATTACH_INJECTOR_TRACING_WAIT_STATUS_H_

#include <string>

namespace rocattach {

// A status of waitid for a thread under PTRACE_SEIZE, by kind. The meaning of the
// numbers is in ptrace(2), "Stopped states".
class WaitStatus {
 public:
  enum class Kind {
    kExited,          // by exit(); exit_code()
    kSignalled,       // killed; signal()
    kSignalStop,      // signal() is about to be delivered
    kSystemCallStop,  // at the entry or the end of a system call
    kGroupStop,       // the whole process has been stopped by signal()
    kPtraceEvent,     // event(); PTRACE_EVENT_STOP after PTRACE_INTERRUPT
  };

  // si_code and si_status of waitid. Codes other than stops count as the end.
  static WaitStatus FromWaitid(int code, int status);
  static WaitStatus Exited(int code) { return {Kind::kExited, code}; }
  static WaitStatus Signalled(int signal) { return {Kind::kSignalled, signal}; }
  static WaitStatus SignalStop(int signal) { return {Kind::kSignalStop, signal}; }
  static WaitStatus SystemCallStop() { return {Kind::kSystemCallStop, 0}; }
  static WaitStatus GroupStop(int signal) { return {Kind::kGroupStop, signal}; }
  static WaitStatus PtraceEvent(int event) { return {Kind::kPtraceEvent, event}; }

  Kind kind() const { return kind_; }
  bool is_stop() const { return kind_ >= Kind::kSignalStop; }
  // 0 where the kind has none.
  int exit_code() const { return kind_ == Kind::kExited ? number_ : 0; }
  int signal() const {
    return kind_ == Kind::kExited || kind_ == Kind::kPtraceEvent ? 0 : number_;
  }
  int event() const { return kind_ == Kind::kPtraceEvent ? number_ : 0; }

  // For messages: "killed by SIGKILL", "stopped by PTRACE_EVENT_STOP".
  std::string ToString() const;

  friend bool operator==(const WaitStatus&, const WaitStatus&) = default;

 private:
  WaitStatus(Kind kind, int number) : kind_(kind), number_(number) {}

  Kind kind_;
  int number_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TRACING_WAIT_STATUS_H_
