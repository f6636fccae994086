// Checks that are made before anything in the target is changed.
#ifndef ROCATTACH_INJECTOR_PROCESS_TARGET_CHECKS_H_
#define ROCATTACH_INJECTOR_PROCESS_TARGET_CHECKS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "injector/elf/file_identity.h"
#include "injector/failure.h"
#include "injector/process/maps.h"
#include "injector/process/thread_status.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

// Checks that `pid` is still the process that started at `start_ns` (CLOCK_BOOTTIME; 0:
// any). kPidReused, kTargetExited.
StepResult CheckIdentity(pid_t pid, uint64_t start_ns);

// Returns `result`; or, if it is a failure and the thread has ended meanwhile, the same
// as kTargetExited: what /proc shows of a process that is ending is not reliable.
StepResult UnlessEnded(pid_t pid, pid_t tid, StepResult result);

// Checks that the process has only its own user's privileges: AT_SECURE is set for a
// set-uid program and for one with file capabilities. kSecureExec; kUnsupported for a
// 32-bit process.
StepResult CheckNotSecure(pid_t pid);

// Checks that the thread can make the system calls of dlopen. kUnsupported in seccomp's
// strict mode. Filters are accepted: hsa_init itself needs the same calls as dlopen.
StepResult CheckSeccomp(const ThreadStatus& status);

// Checks that the limits of process `pid` allow for the collector and for shared memory
// of `memory_bytes` (0: not checked). Beyond RLIMIT_FSIZE the kernel would kill the
// process with SIGXFSZ; with the others the collector could not start. kResourceLimit.
StepResult CheckLimits(pid_t pid, uint64_t memory_bytes);

// Offset by which the clock of the service (CLOCK_BOOTTIME) is ahead of the process's,
// which may be in a time namespace. kUnsupported if it cannot be determined.
StepResult ReadClockOffset(pid_t pid, int64_t* offset_ns);

// Checks that the collector is a regular file under the target's root that its user can
// read, on a file system that permits executable mappings, and is `file` (without an
// inode: any file). kCollectorMissing, kCollectorUnreadable, kCollectorChanged.
StepResult CheckCollector(pid_t pid, const ThreadStatus& status,
                          const std::string& path, const FileIdentity& file = {});

// Checks that a thread can open its own descriptors by a path. kCollectorMissing.
StepResult CheckDescriptorPaths(pid_t pid);

// True for the name of a file that only a process under an emulator or a recorder maps.
bool IsEmulator(absl::string_view basename);

// Checks that no collector is mapped already, and that the process does not run under
// an emulator or recorder, in which its registers are not what they seem.
// kAlreadyAttached, kTranslated.
StepResult CheckMappings(const Maps& maps, absl::string_view collector_path,
                         bool attached_before);

// Checks that a running process has no sanitizer that keeps a shadow of all memory
// (Thread-, Address-, Memory- and HWAddressSanitizer). Its interceptors expect each
// thread to have a state, which a thread that it did not see start lacks, and to be in
// no other interceptor. `maps` must be whole. kSanitizer.
StepResult CheckSanitizers(const Maps& maps);

// Checks that there is room for `bytes` below the stack pointer. kNoCave.
StepResult CheckStack(pid_t pid, const Maps& maps, RemoteAddress stack_pointer,
                      uint64_t bytes);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_TARGET_CHECKS_H_
