// Checks that are made before anything in the target is changed.
#ifndef ROCATTACH_INJECTOR_TARGET_CHECKS_H_
#define ROCATTACH_INJECTOR_TARGET_CHECKS_H_

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "injector/failure.h"
#include "injector/file_identity.h"
#include "injector/maps.h"
#include "injector/remote_address.h"
#include "injector/thread_status.h"

namespace rocattach {

// Is `pid` still the process that started at `start_ns` (CLOCK_BOOTTIME; 0: any)?
// kPidReused, kTargetExited.
StepResult CheckIdentity(pid_t pid, uint64_t start_ns);

// `result`, or kTargetExited with its detail if it is a failure and the thread has
// ended meanwhile: what /proc says of a process that ends is not to be relied on.
StepResult UnlessEnded(pid_t pid, pid_t tid, StepResult result);

// Does the process run only with its own user's privileges? A set-uid program or one
// with file capabilities has AT_SECURE set. kSecureExec; kUnsupported for a 32-bit
// process.
StepResult CheckNotSecure(pid_t pid);

// Can the thread make the system calls of dlopen? kUnsupported in seccomp's strict
// mode. Filters are accepted: hsa_init itself needs the same calls as dlopen.
StepResult CheckSeccomp(const ThreadStatus& status);

// Do the limits of process `pid` leave room for the collector and for shared memory of
// `memory_bytes` (0: not checked)? Beyond RLIMIT_FSIZE the kernel would kill the
// process with SIGXFSZ; with the others the collector could not start. kResourceLimit.
StepResult CheckLimits(pid_t pid, uint64_t memory_bytes);

// How far the clock of the service is ahead of the process's, which may be in a time
// namespace (CLOCK_BOOTTIME). kUnsupported if that cannot be told.
StepResult ReadClockOffset(pid_t pid, int64_t* offset_ns);

// Is the collector a regular file under the target's root that its user can read, on a
// file system from which it can be mapped executable, and is it `file` (without an
// inode: any file will do)? kCollectorMissing, kCollectorUnreadable, kCollectorChanged.
StepResult CheckCollector(pid_t pid, const ThreadStatus& status,
                          const std::string& path, const FileIdentity& file = {});

// Can a thread open its own descriptors by a path? kCollectorMissing.
StepResult CheckDescriptorPaths(pid_t pid);

// True for the name of a file that only a process under an emulator or a recorder maps.
bool IsEmulator(absl::string_view basename);

// Is the collector mapped already, or does the process run under an emulator or
// recorder, so that its registers are not what they seem? kAlreadyAttached,
// kUnsupported.
StepResult CheckMappings(const Maps& maps, absl::string_view collector_path,
                         bool attached_before);

// Has a running process a sanitizer that keeps a shadow of all memory (Thread-, Address-,
// Memory- and HWAddressSanitizer)? Its interceptors expect each thread to have a state,
// which those have not that it did not see start, and to be in no other interceptor.
// `maps` must be whole. kUnsupported.
StepResult CheckSanitizers(const Maps& maps);

// Is there room for `bytes` below the stack pointer? kNoCave.
StepResult CheckStack(pid_t pid, const Maps& maps, RemoteAddress stack_pointer,
                      uint64_t bytes);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_TARGET_CHECKS_H_
