#include "userspace/doctor/kernel_checks.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"

// include/uapi/linux/memfd.h, since 6.3.
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace rocattach {
namespace {

// The oldest kernel that scripts/test-kernels boots.
constexpr KernelVersion kOldestTested = {5, 10};

// A setting of /proc/sys as a number; nothing if it is not there.
std::optional<int> ReadSetting(const Machine& machine, absl::string_view path) {
  auto text = machine.Read(path);
  int value;
  if (!text.ok() || !absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &value)) {
    return std::nullopt;
  }
  return value;
}

// The word in brackets of "none [integrity] confidentiality".
absl::string_view ChosenWord(absl::string_view text) {
  size_t begin = text.find('[');
  size_t end = text.find(']');
  if (begin == absl::string_view::npos || end == absl::string_view::npos ||
      end <= begin) {
    return "";
  }
  return text.substr(begin + 1, end - begin - 1);
}

// Median cost, in nanoseconds, of reading the clock that timestamps every record.
uint64_t ClockReadNs() {
  constexpr int kReads = 200;
  std::vector<uint64_t> rounds;
  for (int round = 0; round < 9; ++round) {
    uint64_t begin = ClockNs(CLOCK_MONOTONIC_RAW);
    for (int i = 0; i < kReads; ++i) (void)BootNs();
    rounds.push_back((ClockNs(CLOCK_MONOTONIC_RAW) - begin) / kReads);
  }
  std::nth_element(rounds.begin(), rounds.begin() + 4, rounds.end());
  return rounds[4];
}

}  // namespace

std::optional<KernelVersion> ParseKernelVersion(absl::string_view release) {
  std::vector<absl::string_view> parts =
      absl::StrSplit(release, absl::ByAnyChar(".-+_ "));
  KernelVersion version;
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &version.major) ||
      !absl::SimpleAtoi(parts[1], &version.minor) || version.major < 0 ||
      version.minor < 0) {
    return std::nullopt;
  }
  return version;
}

Check CheckKernel(absl::string_view release, absl::string_view machine) {
  Check check = {.name = "kernel",
                 .found = absl::StrCat("Linux ", release, " on ", machine)};
  auto version = ParseKernelVersion(release);
  if (machine != "x86_64") {
    check.state = CheckState::kFailed;
    check.meaning = "The injected code is x86-64 only.";
    check.remedy = "Use an x86-64 machine.";
  } else if (!version.has_value()) {
    check.state = CheckState::kUnchecked;
    check.meaning = "The kernel's version number cannot be parsed.";
    check.remedy = "See the check 'hold', which tries the features.";
  } else if (*version < kOldestTested) {
    check.state = CheckState::kNote;
    check.meaning = absl::StrFormat(
        "Kernels before Linux %d.%d are not tested. The checks 'hold', 'features' and "
        "'window' try the features of this one.",
        kOldestTested.major, kOldestTested.minor);
  }
  return check;
}

Check CheckBtf(const Machine& machine) {
  Check check = {.name = "btf", .found = "/sys/kernel/btf/vmlinux"};
  if (!machine.Exists("/sys/kernel/btf/vmlinux")) {
    check.state = CheckState::kFailed;
    check.found = "no /sys/kernel/btf/vmlinux";
    check.meaning =
        "Without the kernel's type information (BTF) the BPF programs cannot be "
        "relocated for it.";
    check.remedy =
        "Boot a kernel built with CONFIG_DEBUG_INFO_BTF=y, as current distributions' "
        "kernels are; in a container, mount /sys.";
  } else if (!machine.CanOpen("/sys/kernel/btf/vmlinux", false)) {
    check.state = CheckState::kFailed;
    check.found = "/sys/kernel/btf/vmlinux cannot be read";
    check.meaning =
        "Without the kernel's type information (BTF) the BPF programs cannot be "
        "relocated for it.";
    check.remedy = "Run as root, or make /sys/kernel/btf available in the container.";
  } else {
    check.meaning =
        "The BPF programs are relocated for this kernel's types when they load.";
  }
  return check;
}

Check CheckUprobeSource(const Machine& machine) {
  Check check = {.name = "uprobes"};
  auto type = machine.Read("/sys/bus/event_source/devices/uprobe/type");
  if (type.ok()) {
    check.found = absl::StrCat("perf event source ", *type);
    check.meaning = "Functions can be probed in every copy of a library.";
    return check;
  }
  check.state = CheckState::kFailed;
  check.found = "no /sys/bus/event_source/devices/uprobe";
  check.meaning = "hsa_init cannot be probed.";
  check.remedy =
      "Boot a kernel built with CONFIG_UPROBE_EVENTS=y and CONFIG_PERF_EVENTS=y; in a "
      "container, mount /sys.";
  return check;
}

Check CheckLockdown(const Machine& machine) {
  Check check = {.name = "lockdown"};
  auto text = machine.Read("/sys/kernel/security/lockdown");
  if (!text.ok()) {
    check.found = "not enabled, or not visible";
    check.meaning = "The kernel has no lockdown, or securityfs is not mounted.";
    return check;
  }
  absl::string_view mode = ChosenWord(*text);
  check.found = std::string(mode.empty() ? absl::string_view(*text) : mode);
  if (mode == "confidentiality") {
    check.state = CheckState::kFailed;
    check.meaning =
        "Lockdown mode 'confidentiality' prevents BPF programs from reading kernel "
        "memory and disables perf events, so no probe can work.";
    check.remedy =
        "Boot with lockdown=integrity or without lockdown (it cannot be lowered while "
        "the kernel runs).";
  } else if (mode == "integrity" || mode == "none") {
    check.meaning = "Does not restrict BPF programs or uprobes.";
  } else {
    check.state = CheckState::kUnchecked;
    check.meaning = "Unknown lockdown mode.";
    check.remedy = "See the check 'hold' for whether BPF programs load.";
  }
  return check;
}

Check CheckUnprivilegedBpf(const Machine& machine) {
  Check check = {.name = "unprivileged-bpf"};
  auto value = ReadSetting(machine, "/proc/sys/kernel/unprivileged_bpf_disabled");
  if (!value.has_value()) {
    check.found = "no kernel.unprivileged_bpf_disabled";
    check.meaning = "The kernel was built without the bpf() system call.";
    check.remedy = "Boot a kernel built with CONFIG_BPF_SYSCALL=y.";
    check.state = CheckState::kFailed;
    if (!machine.Exists("/proc/sys/kernel")) {
      check.state = CheckState::kUnchecked;
      check.meaning = "/proc/sys cannot be read.";
      check.remedy = "Mount /proc.";
    }
    return check;
  }
  check.found = absl::StrCat("kernel.unprivileged_bpf_disabled = ", *value);
  check.meaning =
      "Affects only processes without CAP_BPF; rocattach-watch always needs CAP_BPF.";
  return check;
}

std::string TryCollectorMemory() {
  // The same two calls as in the collector, which must work on kernels before and after
  // MFD_NOEXEC_SEAL.
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  UniqueFd fd(static_cast<int>(
      syscall(SYS_memfd_create, "rocattach", kFlags | MFD_NOEXEC_SEAL)));
  if (!fd.valid() && errno == EINVAL) {
    fd.reset(static_cast<int>(syscall(SYS_memfd_create, "rocattach", kFlags)));
  }
  if (!fd.valid()) return absl::StrCat("memfd_create: ", strerror(errno));
  if (ftruncate(fd.get(), 4096) != 0) {
    return absl::StrCat("ftruncate(memfd): ", strerror(errno));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::StrCat("fcntl(F_ADD_SEALS): ", strerror(errno));
  }
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return absl::StrCat("mmap(memfd): ", strerror(errno));
  munmap(memory, 4096);
  return "";
}

Check CheckMemfd(const Machine& machine) {
  Check check = {.name = "memfd"};
  auto value = ReadSetting(machine, "/proc/sys/vm/memfd_noexec");
  check.found = value.has_value() ? absl::StrCat("vm.memfd_noexec = ", *value)
                                  : "no vm.memfd_noexec (before Linux 6.3)";
  std::string failure = TryCollectorMemory();
  if (failure.empty()) {
    check.meaning = "The collector's shared memory can be created.";
    return check;
  }
  check.state = CheckState::kFailed;
  absl::StrAppend(&check.found, "; ", failure);
  check.meaning =
      "The collector keeps its records in a sealed memfd, which cannot be created "
      "here.";
  check.remedy =
      "Use a kernel built with CONFIG_MEMFD_CREATE=y, and a container profile that "
      "allows memfd_create and fcntl.";
  return check;
}

Check CheckProcMem(const Machine& machine) {
  Check check = {.name = "proc-mem"};
  auto cmdline = machine.Read("/proc/cmdline");
  if (!cmdline.ok()) {
    check.state = CheckState::kUnchecked;
    check.found = "/proc/cmdline cannot be read";
    check.meaning =
        "Whether a boot option forbids writes through /proc/PID/mem is unknown.";
    check.remedy = "See the check 'ptrace', which tries such a write.";
    return check;
  }
  // Since 6.12; the last one on the command line counts.
  std::string force;
  for (absl::string_view word : absl::StrSplit(*cmdline, ' ', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&word, "proc_mem.force_override=")) {
      force = std::string(word);
    }
  }
  if (force.empty()) {
    check.found = "no proc_mem.force_override";
    check.meaning =
        "The kernel's default applies; the check 'ptrace' tries such a write.";
  } else if (force == "never") {
    check.state = CheckState::kNote;
    check.found = "proc_mem.force_override=never";
    check.meaning =
        "Code pages cannot be written through /proc/PID/mem; the injector uses ptrace "
        "instead, which is slightly slower.";
  } else {
    check.found = absl::StrCat("proc_mem.force_override=", force);
    check.meaning = "A tracer may write its tracee's code pages.";
  }
  return check;
}

Check CheckTranslators(absl::string_view lacking) {
  Check check = {.name = "translators", .found = "Valgrind, qemu-user"};
  if (lacking.empty()) {
    check.meaning = "Programs under these run as without the service, and are passed.";
    return check;
  }
  check.state = CheckState::kWarning;
  check.meaning = std::string(lacking);
  check.remedy =
      "Run as root, on a kernel with CONFIG_FANOTIFY=y and without the boot option "
      "proc_mem.force_override=never or =ptrace; or stop the service while such "
      "programs run.";
  return check;
}

Check CheckClock(const Machine& machine) {
  Check check = {.name = "clock"};
  auto source =
      machine.Read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  uint64_t cost_ns = ClockReadNs();
  check.found =
      absl::StrFormat("%s, %d ns per reading",
                      source.ok() ? source->c_str() : "unknown source", cost_ns);
  // The clock sources that the vDSO reads without a system call.
  bool fast = source.ok() && (*source == "tsc" || *source == "kvm-clock" ||
                              *source == "hyperv_clocksource_tsc_page");
  if (fast) {
    check.meaning = "Timestamps are read without a system call.";
  } else if (source.ok()) {
    check.state = CheckState::kNote;
    check.meaning = "Every timestamp is a system call, which makes recording slower.";
    check.remedy =
        "Use the TSC if it is reliable on this machine: boot with tsc=reliable, or see "
        "the kernel log for why it was marked unstable.";
  }
  return check;
}

}  // namespace rocattach
