#include "injector/process/target_checks.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/magic.h>
#include <linux/seccomp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "injector/elf/mapped_file.h"
#include "injector/process/mapped_collector.h"
#include "userspace/abi/shared_memory.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"
#include "userspace/base/time_namespace.h"

namespace rocattach {
namespace {

constexpr size_t kAuxvLimit = 8192;

// Names of files that are mapped only in a process under one of these: its registers
// belong to the translator or to the recorder, not to the program.
constexpr std::array<absl::string_view, 7> kEmulatorPrefixes = {
    "qemu-",      "box64",           "FEXInterpreter", "rosetta",
    "vgpreload_", "memcheck-amd64-", "librrpreload"};

bool SameUserNamespace(pid_t pid) {
  struct stat theirs, ours;
  return stat(absl::StrCat("/proc/", pid, "/ns/user").c_str(), &theirs) == 0 &&
         stat("/proc/self/ns/user", &ours) == 0 && theirs.st_ino == ours.st_ino;
}

// True if the thread has the rights `wanted` (of 4 read, 1 search) on this file. Access
// control lists are ignored; a dlopen that they deny fails cleanly.
bool MayAccess(pid_t pid, const ThreadStatus& status, const struct stat& info,
               mode_t wanted) {
  mode_t all = wanted << 6 | wanted << 3 | wanted;
  if ((info.st_mode & all) == all) return true;
  mode_t granted = info.st_mode;
  if (info.st_uid == status.file_uid) {
    granted >>= 6;
  } else if (info.st_gid == status.file_gid ||
             std::find(status.groups.begin(), status.groups.end(), info.st_gid) !=
                 status.groups.end()) {
    granted >>= 3;
  }
  if ((granted & wanted) == wanted) return true;
  constexpr uint64_t kOverride = 1ull << CAP_DAC_OVERRIDE | 1ull << CAP_DAC_READ_SEARCH;
  return (status.effective_capabilities & kOverride) != 0 && SameUserNamespace(pid);
}

AttachFailure Unreadable(const std::string& path, absl::string_view part,
                         const ThreadStatus& status) {
  return {AttachReason::kCollectorUnreadable, EACCES,
          absl::StrCat(path, ": user ", status.file_uid, " of the target may not ",
                       part, "; install the collector where every user can read it")};
}

struct MemoryLimit {
  __rlimit_resource resource;
  const char* name;
};
constexpr MemoryLimit kMemoryLimits[] = {
    {RLIMIT_AS, "address space (RLIMIT_AS, ulimit -v)"},
    {RLIMIT_DATA, "data (RLIMIT_DATA, ulimit -d)"},
};

AttachFailure LimitFailure(absl::string_view name, uint64_t limit, uint64_t used,
                           uint64_t needed, absl::string_view what) {
  return {AttachReason::kResourceLimit, 0,
          absl::StrCat("the process's limit of ", name, " is ", limit,
                       used == 0 ? "" : absl::StrCat(", of which ", used, " are used"),
                       "; ", needed, " ", what, " are needed")};
}

StepResult CheckFile(pid_t pid, int root, const ThreadStatus& status,
                     const std::string& path, const FileIdentity& file) {
  auto fd = OpenInRoot(root, path, O_PATH);
  if (!fd.ok()) {
    return FailureFromStatus(fd.status(), absl::IsNotFound(fd.status())
                                              ? AttachReason::kCollectorMissing
                                              : AttachReason::kCollectorUnreadable);
  }
  struct stat info;
  struct statvfs file_system;
  if (fstat(fd->get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return AttachFailure{AttachReason::kCollectorMissing, 0,
                         absl::StrCat(path, " is not a regular file")};
  }
  if (const FileIdentity found = FileIdentity::Of(info);
      file.inode != 0 && found != file) {
    return AttachFailure{
        AttachReason::kCollectorChanged, 0,
        found.IsSameFile(file)
            ? absl::StrCat(path, " has been written to since the service started")
            : absl::StrCat(path, " is another file in the process's root (device ",
                           found.device, ", inode ", found.inode,
                           ") than the service's own (device ", file.device, ", inode ",
                           file.inode, ")")};
  }
  if (!MayAccess(pid, status, info, 4)) return Unreadable(path, "read it", status);
  if (fstatvfs(fd->get(), &file_system) == 0 && (file_system.f_flag & ST_NOEXEC) != 0) {
    return AttachFailure{AttachReason::kCollectorUnreadable, EPERM,
                         absl::StrCat(path, " is on a file system mounted noexec")};
  }
  return StepOk();
}

}  // namespace

bool IsEmulator(absl::string_view basename) {
  return std::any_of(
      kEmulatorPrefixes.begin(), kEmulatorPrefixes.end(),
      [basename](absl::string_view p) { return absl::StartsWith(basename, p); });
}

StepResult CheckIdentity(pid_t pid, uint64_t start_ns) {
  if (start_ns == 0) return StepOk();
  auto ticks = ReadStartTicks(pid);
  if (!ticks.ok()) {
    return FailureFromProc(ticks.status());
  }
  const ProcessId meant = ProcessId::StartedAt(pid, start_ns);
  if (*ticks == meant.start_ticks) return StepOk();
  return AttachFailure{
      AttachReason::kPidReused, 0,
      absl::StrCat("process ", pid, " started at tick ", *ticks,
                   ", the one that was meant at tick ", meant.start_ticks)};
}

StepResult UnlessEnded(pid_t pid, pid_t tid, StepResult result) {
  if (result.ok()) return result;
  auto status = ReadThreadStatus(pid, tid);
  const bool ended = status.ok() ? status->state == 'Z' || status->state == 'X'
                                 : absl::IsNotFound(status.status()) ||
                                       ErrnoOf(status.status()) == ESRCH;
  if (ended) {
    result.failure().reason = AttachReason::kTargetExited;
    result.failure().retryable = false;
  }
  return result;
}

StepResult CheckNotSecure(pid_t pid) {
  const std::string path = absl::StrCat("/proc/", pid, "/auxv");
  auto text = ReadFile(path, kAuxvLimit);
  if (!text.ok()) {
    return FailureFromProc(text.status());
  }
  Elf64_auxv_t entry;
  for (size_t at = 0; at + sizeof(entry) <= text->size(); at += sizeof(entry)) {
    std::memcpy(&entry, text->data() + at, sizeof(entry));
    // A 32-bit process has entries of half the size: read as a 64-bit entry, the first
    // has a value in the upper half of its type.
    if (entry.a_type > UINT16_MAX) break;
    if (entry.a_type == AT_SECURE) {
      if (entry.a_un.a_val == 0) return StepOk();
      return AttachFailure{AttachReason::kSecureExec, 0,
                           absl::StrCat("process ", pid,
                                        " runs a set-uid program or one with file "
                                        "capabilities (AT_SECURE is set)")};
    }
  }
  return AttachFailure{AttachReason::kUnsupported, 0,
                       absl::StrCat(path, " has no 64-bit AT_SECURE entry")};
}

StepResult ReadClockOffset(pid_t pid, int64_t* offset_ns) {
  *offset_ns = 0;
  // The service has no offset of its own (CheckOwnClocks): the process's is enough.
  static const ino_t ours = TimeNamespaceOf("self", "time");
  const std::string name = absl::StrCat(pid);
  const ino_t theirs = TimeNamespaceOf(name, "time");
  if (theirs == ours || theirs == 0) return StepOk();
  auto offset = ReadBootOffset(name);
  if (!offset.ok() && !absl::IsFailedPrecondition(offset.status())) {
    return FailureFromProc(offset.status());
  }
  if (!offset.ok()) {
    return AttachFailure{AttachReason::kUnsupported, 0,
                         std::string(offset.status().message())};
  }
  *offset_ns = -*offset;
  return StepOk();
}

StepResult CheckSeccomp(const ThreadStatus& status) {
  if (status.seccomp_mode != SECCOMP_MODE_STRICT) return StepOk();
  return AttachFailure{AttachReason::kUnsupported, 0,
                       "the thread is in seccomp's strict mode, where opening a file "
                       "would kill it"};
}

StepResult CheckLimits(pid_t pid, uint64_t memory_bytes) {
  if (memory_bytes == 0) return StepOk();
  auto limit_of = [pid](__rlimit_resource resource) -> uint64_t {
    rlimit limit;
    return prlimit(pid, resource, nullptr, &limit) == 0 ? limit.rlim_cur
                                                        : RLIM_INFINITY;
  };
  if (const uint64_t limit = limit_of(RLIMIT_FSIZE); limit < memory_bytes) {
    return LimitFailure("file size (RLIMIT_FSIZE, ulimit -f)", limit, 0, memory_bytes,
                        "bytes for the collector's shared memory");
  }
  // Memory that the collector takes would be missing later, when the runtime or the
  // program needs it: such a limit may fit exactly, and hsa_init aborts beyond it.
  for (const MemoryLimit& limit : kMemoryLimits) {
    if (const uint64_t bytes = limit_of(limit.resource); bytes != RLIM_INFINITY) {
      return AttachFailure{
          AttachReason::kResourceLimit, 0,
          absl::StrCat("the process has a limit of ", limit.name, ", ", bytes,
                       " bytes, of which the collector would take some away")};
    }
  }
  // From Linux 6.2 on the size of the directory is the number of descriptors.
  struct stat descriptors;
  const uint64_t file_limit = limit_of(RLIMIT_NOFILE);
  if (stat(absl::StrCat("/proc/", pid, "/fd").c_str(), &descriptors) == 0 &&
      static_cast<uint64_t>(descriptors.st_size) >= file_limit) {
    return LimitFailure("open files (RLIMIT_NOFILE, ulimit -n)", file_limit,
                        static_cast<uint64_t>(descriptors.st_size), 1,
                        "descriptor for the collector");
  }
  return StepOk();
}

StepResult CheckCollector(pid_t pid, const ThreadStatus& status,
                          const std::string& path, const FileIdentity& file) {
  auto root = OpenRootOf(pid);
  if (!root.ok()) {
    return FailureFromProc(root.status());
  }
  // Each directory must let the target's user through. Links are followed; only the
  // directory that they resolve to is checked.
  for (size_t slash = path.find('/', 1); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    auto directory =
        OpenInRoot(root->get(), path.substr(0, slash), O_PATH | O_DIRECTORY);
    struct stat info;
    if (!directory.ok() || fstat(directory->get(), &info) != 0) break;
    if (!MayAccess(pid, status, info, 1)) {
      return Unreadable(path, absl::StrCat("search ", path.substr(0, slash)), status);
    }
  }
  return CheckFile(pid, root->get(), status, path, file);
}

StepResult CheckDescriptorPaths(pid_t pid) {
  auto root = OpenRootOf(pid);
  if (!root.ok()) return FailureFromProc(root.status());
  auto proc = OpenInRoot(root->get(), "/proc", O_PATH | O_DIRECTORY);
  struct statfs file_system;
  if (proc.ok() && fstatfs(proc->get(), &file_system) == 0 &&
      file_system.f_type == PROC_SUPER_MAGIC) {
    return StepOk();
  }
  return AttachFailure{AttachReason::kCollectorMissing, 0,
                       "/proc is not mounted in the process's root"};
}

StepResult CheckMappings(const Maps& maps, absl::string_view collector_path,
                         bool attached_before) {
  for (const Mapping& mapping : maps.mappings()) {
    if (!attached_before &&
        (mapping.path == collector_path || mapping.path == ROCATTACH_COLLECTOR_MEMFD ||
         absl::StartsWith(mapping.path, "/memfd:" ROCATTACH_SHM_NAME))) {
      return AttachFailure{AttachReason::kAlreadyAttached, 0,
                           absl::StrCat(mapping.path, " is mapped already")};
    }
    if (!mapping.executable || !mapping.is_file()) continue;
    if (IsEmulator(mapping.basename())) {
      return AttachFailure{AttachReason::kTranslated, 0,
                           absl::StrCat("the target runs under ", mapping.path)};
    }
  }
  return StepOk();
}

// A sanitizer that is linked statically has no file. But a shadow is terabytes of
// writable memory, most of which is never used; nothing else maps that.
StepResult CheckSanitizers(const Maps& maps) {
  constexpr uint64_t kShadowBytes = uint64_t{1} << 40;
  for (const Mapping& mapping : maps.mappings()) {
    if (!mapping.writable || !mapping.is_private || mapping.inode != 0) continue;
    if (mapping.end - mapping.start < kShadowBytes) continue;
    return AttachFailure{
        AttachReason::kSanitizer, 0,
        absl::StrCat("it has mapped ", (mapping.end - mapping.start) / kShadowBytes,
                     " TiB at ", absl::Hex(mapping.start.value()),
                     ", the shadow memory of a sanitizer")};
  }
  return StepOk();
}

StepResult CheckStack(pid_t pid, const Maps& maps, RemoteAddress stack_pointer,
                      uint64_t bytes) {
  const Mapping* stack = maps.Find(stack_pointer - 1);
  if (stack == nullptr || !stack->writable || !stack->readable) {
    return AttachFailure{
        AttachReason::kNoCave, 0,
        absl::StrCat("the stack pointer ", absl::Hex(stack_pointer.value()),
                     " is in no writable mapping")};
  }
  uint64_t room = stack_pointer - stack->start;
  if (stack->path == "[stack]") {
    // The first thread's stack grows on demand, up to the limit.
    rlimit limit;
    const uint64_t used = stack->end - stack_pointer;
    if (prlimit(pid, RLIMIT_STACK, nullptr, &limit) == 0 && limit.rlim_cur > used) {
      room = std::max<uint64_t>(room, limit.rlim_cur - used);
    }
  }
  if (room >= bytes) return StepOk();
  return AttachFailure{AttachReason::kNoCave, 0,
                       absl::StrCat("the thread has ", room, " bytes of stack left, ",
                                    bytes, " are needed")};
}

}  // namespace rocattach
