#include "injector/outcome.h"

namespace rocattach {

absl::string_view AttachStageName(AttachStage stage) {
  switch (stage) {
    case AttachStage::kCheck:
      return "check";
    case AttachStage::kSeize:
      return "seize";
    case AttachStage::kStop:
      return "stop";
    case AttachStage::kResolve:
      return "resolve";
    case AttachStage::kWrite:
      return "write";
    case AttachStage::kRedirect:
      return "redirect";
    case AttachStage::kRelease:
      return "release";
    case AttachStage::kReport:
      return "report";
    case AttachStage::kDone:
      return "done";
  }
  return "unknown";
}

absl::string_view AttachReasonName(AttachReason reason) {
  switch (reason) {
    case AttachReason::kNone:
      return "none";
    case AttachReason::kTargetExited:
      return "target-exited";
    case AttachReason::kPidReused:
      return "pid-reused";
    case AttachReason::kAlreadyTraced:
      return "already-traced";
    case AttachReason::kNotPermitted:
      return "not-permitted";
    case AttachReason::kStopTimeout:
      return "stop-timeout";
    case AttachReason::kNotAtWindow:
      return "not-at-window";
    case AttachReason::kCollectorMissing:
      return "collector-missing";
    case AttachReason::kCollectorUnreadable:
      return "collector-unreadable";
    case AttachReason::kNoDlopen:
      return "no-dlopen";
    case AttachReason::kNoCave:
      return "no-cave";
    case AttachReason::kBadElf:
      return "bad-elf";
    case AttachReason::kUnsupported:
      return "unsupported";
    case AttachReason::kMemoryAccess:
      return "memory-access";
    case AttachReason::kRegisters:
      return "registers";
    case AttachReason::kAlreadyAttached:
      return "already-attached";
    case AttachReason::kSecureExec:
      return "secure-exec";
    case AttachReason::kCollectorSilent:
      return "collector-silent";
    case AttachReason::kCollectorRefused:
      return "collector-refused";
    case AttachReason::kInternal:
      return "internal";
    case AttachReason::kLoaderBusy:
      return "loader-busy";
    case AttachReason::kNoSafePoint:
      return "no-safe-point";
    case AttachReason::kUnsafeContext:
      return "unsafe-context";
    case AttachReason::kServiceResources:
      return "service-resources";
    case AttachReason::kDiedDuringAttach:
      return "died-during-attach";
    case AttachReason::kOverBudget:
      return "over-budget";
    case AttachReason::kSharedMemory:
      return "shared-memory";
    case AttachReason::kResourceLimit:
      return "resource-limit";
    case AttachReason::kCollectorChanged:
      return "collector-changed";
    case AttachReason::kInheritedRuntime:
      return "inherited-runtime";
    case AttachReason::kSeccompFilter:
      return "seccomp-filter";
  }
  return "unknown";
}

absl::string_view AttachReasonHelp(AttachReason reason) {
  switch (reason) {
    case AttachReason::kNone:
      return "The collector was started in the process.";
    case AttachReason::kTargetExited:
      return "The process ended before the collector was loaded; no action needed.";
    case AttachReason::kPidReused:
      return "The process ended and its process ID was reused; the new process was not "
             "touched.";
    case AttachReason::kAlreadyTraced:
      return "Another debugger or tracer is attached to the process; detach it and "
             "restart the process.";
    case AttachReason::kNotPermitted:
      return "The kernel does not permit tracing the process: run the service as root "
             "or with CAP_SYS_PTRACE, and check kernel.yama.ptrace_scope and the "
             "security module.";
    case AttachReason::kStopTimeout:
      return "The thread did not stop in time: it is frozen or in uninterruptible "
             "sleep; a longer hold timeout may help.";
    case AttachReason::kNotAtWindow:
      return "The thread was past the entry of hsa_init when it was stopped; restart "
             "the process, and raise the hold timeout if this happens again.";
    case AttachReason::kCollectorMissing:
      return "The process does not see the collector's file, and could not be sent "
             "it: mount /proc and allow Unix sockets there, or mount the file into the "
             "container.";
    case AttachReason::kCollectorUnreadable:
      return "The process cannot read, map or load the collector's file, and could not "
             "be sent another one: make the file and its directories readable by all "
             "users, on a file system that is not mounted noexec.";
    case AttachReason::kNoDlopen:
      return "No usable dlopen was found in the process: only programs that use one "
             "glibc dynamically can be attached to.";
    case AttachReason::kNoCave:
      return "The process has no room for 1 KB of code after a library's code segment, "
             "or its thread has no stack left; call hsa_init from a thread with a "
             "larger stack.";
    case AttachReason::kBadElf:
      return "A library of the process could not be parsed; check that the file is "
             "complete.";
    case AttachReason::kUnsupported:
      return "This kind of process is not supported: only native 64-bit x86 programs "
             "are, without seccomp's strict mode and not under an emulator.";
    case AttachReason::kMemoryAccess:
      return "The process's memory could not be read or written; see the errno.";
    case AttachReason::kRegisters:
      return "The thread's registers could not be read or set; see the errno.";
    case AttachReason::kAlreadyAttached:
      return "The process already has a collector; use a session to control it.";
    case AttachReason::kSecureExec:
      return "The process has more privileges than its user (set-uid or file "
             "capabilities) and is deliberately not attached to.";
    case AttachReason::kCollectorSilent:
      return "The collector was started but did not report; check whether its library "
             "is mapped in the process and whether its dependencies can be loaded.";
    case AttachReason::kCollectorRefused:
      return "The collector does not support the process's runtime and changed "
             "nothing; its own text gives the reason.";
    case AttachReason::kServiceResources:
      return "The service, not the process, ran out of open files or memory; raise its "
             "limits (LimitNOFILE, fs.file-max, memory) or attach to fewer processes.";
    case AttachReason::kOverBudget:
      return "The processes of its user exceeded a budget of the service; the text "
             "names the option that sets it.";
    case AttachReason::kDiedDuringAttach:
      return "A signal killed the process during its attach, which may be the cause: "
             "check whether it also dies without the service; exclude it with --deny, "
             "and report it.";
    case AttachReason::kSharedMemory:
      return "The process shares its memory with another one (CLONE_VM, vfork), and a "
             "collector serves one process; call hsa_init in only one of them, and not "
             "in the child of a vfork.";
    case AttachReason::kResourceLimit:
      return "A resource limit of the process leaves no room for the collector; raise "
             "the limit that is named (ulimit, setrlimit, LimitFSIZE and the like of "
             "the "
             "service manager) and restart the process.";
    case AttachReason::kCollectorChanged:
      return "The file at the collector's path is not the one that the service was "
             "started with, and the process could not be sent that one: mount /proc "
             "and allow Unix sockets there, or mount the service's own file.";
    case AttachReason::kInternal:
      return "The request or the injector itself is at fault; please report it with "
             "the detail.";
    case AttachReason::kLoaderBusy:
      return "Another thread of the process held the dynamic loader's lock throughout, "
             "for example in a library constructor that waits for hsa_init; call "
             "hsa_init outside of constructors and of dlopen.";
    case AttachReason::kUnsafeContext:
      return "hsa_init was called inside the memory allocator, or in a signal handler "
             "that interrupted the C library or the allocator, where no library can be "
             "loaded; call hsa_init from ordinary code.";
    case AttachReason::kNoSafePoint:
      return "No thread of the process called the HSA runtime, and none was blocked in "
             "a "
             "system call that continues unnoticed after an interruption; try again "
             "while the process uses the GPU.";
    case AttachReason::kInheritedRuntime:
      return "A child that is forked while the HSA runtime is open cannot use GPUs, so "
             "there is nothing to record; fork before the runtime is started, or let "
             "the child run a program of its own (exec, Python's 'spawn').";
    case AttachReason::kSeccompFilter:
      return "A seccomp filter of the process would end it at a system call that "
             "loading the collector needs; let the filter allow the call that is "
             "named, or answer it with an error.";
  }
  return "";
}

}  // namespace rocattach
