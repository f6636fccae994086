#include "injector/attach_reasons.h"

#include <cstddef>
#include <iterator>

namespace rocattach {
namespace {

// In the order of their values.
constexpr AttachReasonEntry kReasons[] = {
    {AttachReason::kNone, "none", "The collector was started in the process."},
    {AttachReason::kTargetExited, "target-exited",
     "The process ended before the collector was loaded; no action needed."},
    {AttachReason::kPidReused, "pid-reused",
     "The process ended and its process ID was reused; the new process was not "
     "touched."},
    {AttachReason::kAlreadyTraced, "already-traced",
     "Another debugger or tracer is attached to the process; detach it and restart the "
     "process."},
    {AttachReason::kNotPermitted, "not-permitted",
     "The kernel does not permit tracing the process: run the service as root or with "
     "CAP_SYS_PTRACE, and check kernel.yama.ptrace_scope and the security module."},
    {AttachReason::kStopTimeout, "stop-timeout",
     "The thread did not stop in time: it is frozen or in uninterruptible sleep; a "
     "longer hold timeout may help."},
    {AttachReason::kNotAtWindow, "not-at-window",
     "The thread was past the entry of hsa_init when it was stopped; restart the "
     "process, and raise the hold timeout if this happens again."},
    {AttachReason::kCollectorMissing, "collector-missing",
     "The process does not see the collector's file, and could not be sent it: mount "
     "/proc and allow Unix sockets there, or mount the file into the container."},
    {AttachReason::kCollectorUnreadable, "collector-unreadable",
     "The process cannot read, map or load the collector's file, and could not be sent "
     "another one: make the file and its directories readable by all users, on a file "
     "system that is not mounted noexec."},
    {AttachReason::kNoDlopen, "no-dlopen",
     "No usable dlopen was found in the process: only programs that use one glibc "
     "dynamically can be attached to."},
    {AttachReason::kNoCave, "no-cave",
     "The process has no room for 1 KB of code after a library's code segment, or its "
     "thread has no stack left; call hsa_init from a thread with a larger stack."},
    {AttachReason::kBadElf, "bad-elf",
     "A library of the process could not be parsed; check that the file is complete."},
    {AttachReason::kUnsupported, "unsupported",
     "This kind of process is not supported: only native 64-bit x86 programs are, "
     "without seccomp's strict mode and not under an emulator."},
    {AttachReason::kMemoryAccess, "memory-access",
     "The process's memory could not be read or written; see the errno."},
    {AttachReason::kRegisters, "registers",
     "The thread's registers could not be read or set; see the errno."},
    {AttachReason::kAlreadyAttached, "already-attached",
     "The process already has a collector; use a session to control it."},
    {AttachReason::kSecureExec, "secure-exec",
     "The process has more privileges than its user (set-uid or file capabilities) and "
     "is deliberately not attached to."},
    {AttachReason::kCollectorSilent, "collector-silent",
     "The collector was started but did not report; check whether its library is "
     "mapped in the process and whether its dependencies can be loaded."},
    {AttachReason::kCollectorRefused, "collector-refused",
     "The collector does not support the process's runtime and changed nothing; its "
     "own text gives the reason."},
    {AttachReason::kInternal, "internal",
     "The request or the injector itself is at fault; please report it with the "
     "detail."},
    {AttachReason::kLoaderBusy, "loader-busy",
     "Another thread of the process held the dynamic loader's lock throughout, for "
     "example in a library constructor that waits for hsa_init; call hsa_init outside "
     "of constructors and of dlopen."},
    {AttachReason::kUnsafeContext, "unsafe-context",
     "hsa_init was called inside the memory allocator, or in a signal handler that "
     "interrupted the C library or the allocator, where no library can be loaded; call "
     "hsa_init from ordinary code."},
    {AttachReason::kServiceResources, "service-resources",
     "The service, not the process, ran out of open files or memory; raise its limits "
     "(LimitNOFILE, fs.file-max, memory) or attach to fewer processes."},
    {AttachReason::kDiedDuringAttach, "died-during-attach",
     "A signal killed the process during its attach, which may be the cause: check "
     "whether it also dies without the service; exclude it with --deny, and report "
     "it."},
    {AttachReason::kOverBudget, "over-budget",
     "The processes of its user exceeded a budget of the service; the text names the "
     "option that sets it."},
    {AttachReason::kSharedMemory, "shared-memory",
     "The process shares its memory with another one (CLONE_VM, vfork), and a "
     "collector serves one process; call hsa_init in only one of them, and not in the "
     "child of a vfork."},
    {AttachReason::kResourceLimit, "resource-limit",
     "A resource limit of the process leaves no room for the collector; raise the "
     "limit that is named (ulimit, setrlimit, LimitFSIZE and the like of the service "
     "manager) and restart the process."},
    {AttachReason::kCollectorChanged, "collector-changed",
     "The file at the collector's path is not the one that the service was started "
     "with, and the process could not be sent that one: mount /proc and allow Unix "
     "sockets there, or mount the service's own file."},
    {AttachReason::kNoSafePoint, "no-safe-point",
     "No thread of the process called the HSA runtime, and none was blocked in a "
     "system call that continues unnoticed after an interruption; try again while the "
     "process uses the GPU."},
    {AttachReason::kInheritedRuntime, "inherited-runtime",
     "A child that is forked while the HSA runtime is open cannot use GPUs, so there "
     "is nothing to record; fork before the runtime is started, or let the child run a "
     "program of its own (exec, Python's 'spawn')."},
    {AttachReason::kSeccompFilter, "seccomp-filter",
     "A seccomp filter of the process would end it at a system call that loading the "
     "collector needs; let the filter allow the call that is named, or answer it with "
     "an error."},
    {AttachReason::kForeignThread, "foreign-thread",
     "The thread was not made by the C library's pthread_create, or another one uses "
     "its thread-local storage, so no library can be loaded in it; call the HSA "
     "runtime "
     "from ordinary threads."},
    {AttachReason::kSystemCallDispatch, "system-call-dispatch",
     "The process is sent its own system calls as signals (syscall user dispatch), "
     "also "
     "those that the load would make; switch that off while hsa_init runs."},
    {AttachReason::kSanitizer, "sanitizer",
     "A sanitizer's memory allocator must not be called in a thread of a running "
     "process; start the process while the service runs, so that it is attached to at "
     "hsa_init."},
    {AttachReason::kTranslated, "translated",
     "A translator (Valgrind, QEMU and the like) runs the program's code, and the "
     "collector's could not run in it; start the program without it."},
};

static_assert(
    [] {
      for (size_t i = 0; i < std::size(kReasons); ++i) {
        if (static_cast<size_t>(kReasons[i].reason) != i) return false;
      }
      return true;
    }(),
    "an entry is not at its value's place");

}  // namespace

absl::Span<const AttachReasonEntry> AttachReasons() {
  return kReasons;
}

absl::string_view AttachReasonName(AttachReason reason) {
  const auto value = static_cast<size_t>(reason);
  return value < std::size(kReasons) ? kReasons[value].name : "unknown";
}

absl::string_view AttachReasonHelp(AttachReason reason) {
  const auto value = static_cast<size_t>(reason);
  return value < std::size(kReasons) ? kReasons[value].help : "";
}

}  // namespace rocattach
