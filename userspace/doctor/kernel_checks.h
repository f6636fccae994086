// Checks of the kernel and its settings. Each takes its input as text or files, so that
// it can be tested without such a kernel.
#ifndef ROCATTACH_USERSPACE_DOCTOR_KERNEL_CHECKS_H_
#define ROCATTACH_USERSPACE_DOCTOR_KERNEL_CHECKS_H_

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/machine.h"

namespace rocattach {

struct KernelVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const KernelVersion&) const = default;
};

// The numbers at the start of uname's release ("6.1.0-18-amd64"); nothing if there are
// none.
std::optional<KernelVersion> ParseKernelVersion(absl::string_view release);

// "kernel": uname's release and machine, compared with what the programs need.
Check CheckKernel(absl::string_view release, absl::string_view machine);

// "btf": the kernel's type information.
Check CheckBtf(const Machine& machine);

// "uprobes": the perf event source through which probes are attached.
Check CheckUprobeSource(const Machine& machine);

// "lockdown": /sys/kernel/security/lockdown, "none [integrity] confidentiality".
Check CheckLockdown(const Machine& machine);

// "unprivileged-bpf": kernel.unprivileged_bpf_disabled, which does not matter to a
// process that has the capabilities.
Check CheckUnprivilegedBpf(const Machine& machine);

// "memfd": vm.memfd_noexec, and whether the memory that the collector needs can be
// created.
Check CheckMemfd(const Machine& machine);

// Creates memory as the collector does; returns an empty string, or what failed.
std::string TryCollectorMemory();

// "proc-mem": boot options that forbid forced writes through /proc/PID/mem.
Check CheckProcMem(const Machine& machine);

// "translators": whether programs under Valgrind and qemu-user are safe from probes.
// `lacking`: the reason if they are not (TranslatedProcesses::WhatIsLacking).
Check CheckTranslators(absl::string_view lacking);

// "clock": the clock source. A slow one makes every time stamp slow.
Check CheckClock(const Machine& machine);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_KERNEL_CHECKS_H_
