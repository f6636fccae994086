// The outcome of an attach: stage, reason, errno, whether to try again, and whether the
// target was changed. A record, not an error string, so that verdicts can be counted.
#ifndef ROCATTACH_INJECTOR_OUTCOME_H_
#define ROCATTACH_INJECTOR_OUTCOME_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// The stage that the attach reached.
enum class AttachStage : uint8_t {
  kCheck = 0,     // inspecting the target, nothing requested yet
  kSeize = 1,     // PTRACE_SEIZE
  kStop = 2,      // PTRACE_INTERRUPT and the wait for the stop
  kResolve = 3,   // maps and ELF images
  kWrite = 4,     // the stub
  kRedirect = 5,  // registers
  kRelease = 6,   // PTRACE_DETACH
  kReport = 7,    // the collector's own report (filled in by the service)
  kDone = 8,
};

// The reason why it ended there.
enum class AttachReason : uint8_t {
  kNone = 0,
  kTargetExited = 1,
  kPidReused = 2,
  kAlreadyTraced = 3,  // by another debugger
  kNotPermitted = 4,   // EPERM without a tracer: Yama, LSM, capabilities
  kStopTimeout = 5,
  kNotAtWindow = 6,          // the thread is not where the probe left it
  kCollectorMissing = 7,     // the target does not see the file, and cannot be sent it
  kCollectorUnreadable = 8,  // … or its user cannot read it, or it cannot be loaded
  kNoDlopen = 9,             // no libc that we support
  kNoCave = 10,              // no room for the stub
  kBadElf = 11,              // an image that cannot be parsed
  kUnsupported = 12,         // 32-bit, emulated, static, or an unsupported shadow stack
  kMemoryAccess = 13,        // reading or writing the target failed
  kRegisters = 14,
  kAlreadyAttached = 15,
  kSecureExec = 16,       // set-uid or file capabilities
  kCollectorSilent = 17,  // the stub ran and no report arrived
  kCollectorRefused = 18,
  kInternal = 19,
  kLoaderBusy = 20,        // another thread holds the dynamic loader's lock
  kUnsafeContext = 21,     // hsa_init was called where dlopen must not be called
  kServiceResources = 22,  // EMFILE, ENFILE, ENOMEM of the service's own calls
  kDiedDuringAttach =
      23,               // killed after it was stopped, before the collector was armed
  kOverBudget = 24,     // the process's user exceeded a budget of the service
  kSharedMemory = 25,   // another process that shares its memory has the window
  kResourceLimit = 26,  // one of its rlimits leaves no room for the collector
  kCollectorChanged = 27,  // the file at the collector's path is not the service's
  kNoSafePoint = 28,       // no thread of a running process can be entered now
  // Forked from an attached process while the runtime was open: it cannot use GPUs.
  kInheritedRuntime = 29,
  kSeccompFilter = 30,       // a filter of the thread would kill it during the load
  kForeignThread = 31,       // not made by the C library, or its storage is shared
  kSystemCallDispatch = 32,  // the process's system calls become signals (SIGSYS)
  kSanitizer = 33,           // a running process with a sanitizer
  kTranslated = 34,          // an emulator or another translator runs the program
};

struct AttachOutcome {
  AttachStage stage = AttachStage::kCheck;
  AttachReason reason = AttachReason::kNone;
  int error = 0;           // errno of the failing call, 0 if none
  bool retryable = false;  // a later try may succeed
  // True if memory or registers were written. After a failure the memory was restored,
  // unless the detail says otherwise.
  bool target_modified = false;
  // The calling thread still traces the target and must end: see attach.h.
  bool tracer_must_exit = false;
  std::string detail;  // failing call with its arguments, and the remedy
  // CLOCK_BOOTTIME; 0 if that point was not reached.
  uint64_t seized_ns = 0;
  uint64_t stopped_ns = 0;
  uint64_t released_ns = 0;  // read right before the detach
  // The stub's address if the thread was redirected to it (else 0), and its stack
  // pointer then, for RemoveStub.
  uint64_t stub_address = 0;
  uint64_t stub_stack_pointer = 0;

  // The file in which a stub that was sent the collector reports a failed load
  // (ReadLoadError); null for other stubs.
  std::shared_ptr<const UniqueFd> load_report;

  bool ok() const { return stage == AttachStage::kDone; }
};

// Stable lower-case names, as used in the stream, in JSON and in metrics.
absl::string_view AttachStageName(AttachStage stage);
absl::string_view AttachReasonName(AttachReason reason);
// One sentence for users: what the reason means and what they can do.
absl::string_view AttachReasonHelp(AttachReason reason);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_OUTCOME_H_
