#include "userspace/doctor/privilege_checks.h"

#include <errno.h>
#include <limits.h>
#include <sys/ptrace.h>

#include <array>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "injector/process/thread_status.h"

namespace rocattach {
namespace {

// include/linux/proc_ns.h: PROC_PID_INIT_INO, PROC_USER_INIT_INO.
constexpr absl::string_view kInitialPidNamespace = "pid:[4026531836]";
constexpr absl::string_view kInitialUserNamespace = "user:[4026531837]";

// One capability, what it is used for, and how severe its absence is.
struct CapabilityUse {
  const char* name;
  const char* use;
  CheckState without;
  bool (*held)(const Capabilities&);
};

// CAP_SYS_ADMIN includes the capabilities that were split off it; CAP_DAC_OVERRIDE
// includes the reads that CAP_DAC_READ_SEARCH allows.
constexpr std::array<CapabilityUse, 8> kUses = {{
    {"CAP_BPF", "loads the BPF programs", CheckState::kFailed,
     [](const Capabilities& c) {
       return c.Has(Capabilities::kBpf) || c.Has(Capabilities::kSysAdmin);
     }},
    {"CAP_PERFMON", "allows them to read kernel data", CheckState::kFailed,
     [](const Capabilities& c) {
       return c.Has(Capabilities::kPerfmon) || c.Has(Capabilities::kSysAdmin);
     }},
    {"CAP_SYS_ADMIN", "probes libraries in all processes", CheckState::kFailed,
     [](const Capabilities& c) { return c.Has(Capabilities::kSysAdmin); }},
    {"CAP_SYS_PTRACE", "attaches to processes, reads their mappings and records",
     CheckState::kFailed,
     [](const Capabilities& c) { return c.Has(Capabilities::kSysPtrace); }},
    {"CAP_DAC_READ_SEARCH", "reads libraries in private directories",
     CheckState::kWarning,
     [](const Capabilities& c) {
       return c.Has(Capabilities::kDacReadSearch) || c.Has(Capabilities::kDacOverride);
     }},
    {"CAP_CHECKPOINT_RESTORE", "reads deleted libraries that are still mapped",
     CheckState::kWarning,
     [](const Capabilities& c) {
       return c.Has(Capabilities::kCheckpointRestore) || c.Has(Capabilities::kSysAdmin);
     }},
    {"CAP_SYS_NICE",
     "serves attach windows at real-time priority, for short holds under load",
     CheckState::kWarning,
     [](const Capabilities& c) { return c.Has(Capabilities::kSysNice); }},
    {"CAP_KILL", "forwards signals to a command that changed its user",
     CheckState::kNote,
     [](const Capabilities& c) { return c.Has(Capabilities::kKill); }},
}};

// True if filters let ptrace through to the kernel: a process INT_MAX never exists.
bool MayCallPtrace() {
  return ptrace(PTRACE_SEIZE, INT_MAX, nullptr, nullptr) == -1 && errno == ESRCH;
}

// The options of the file system mounted at /proc, from a mountinfo file: the mount
// point is the fifth field; after " - " come type, source and super options. The last
// line for a mount point is the one in effect.
std::vector<std::string> ProcMountOptions(absl::string_view mountinfo) {
  std::vector<std::string> options;
  for (absl::string_view line : absl::StrSplit(mountinfo, '\n')) {
    std::vector<absl::string_view> fields = absl::StrSplit(line, ' ');
    if (fields.size() < 10 || fields[4] != "/proc") continue;
    options = {};
    for (absl::string_view part : {fields[5], fields.back()}) {
      for (absl::string_view option : absl::StrSplit(part, ',')) {
        options.emplace_back(option);
      }
    }
  }
  return options;
}

}  // namespace

bool Capabilities::CanLoadBpf() const {
  return Has(kSysAdmin) || (Has(kBpf) && Has(kPerfmon));
}

Capabilities ReadCapabilities(const Machine& machine) {
  auto text = machine.Read("/proc/self/status");
  if (!text.ok()) return Capabilities();
  return Capabilities(ParseThreadStatus(*text).effective_capabilities);
}

Check CheckCapabilities(const Capabilities& capabilities) {
  Check check = {.name = "capabilities"};
  std::vector<std::string> missing;
  for (const CapabilityUse& use : kUses) {
    if (use.held(capabilities)) {
      check.items.push_back({use.name, CheckState::kOk, use.use});
      continue;
    }
    missing.push_back(use.name);
    check.items.push_back({use.name, use.without, absl::StrCat("missing; ", use.use)});
    check.state = std::max(check.state, use.without);
  }
  if (missing.empty()) {
    check.found = absl::StrCat("all ", kUses.size());
    check.meaning = "The service has all privileges that it uses.";
    return check;
  }
  check.found = absl::StrCat("missing ", absl::StrJoin(missing, ", "));
  check.meaning =
      check.state == CheckState::kFailed
          ? "This process may not observe and attach to other processes."
          : "Attaching works, without what the missing capabilities are used for.";
  check.remedy = absl::StrCat("Run as root (sudo), or give the service ",
                              absl::StrJoin(missing, " "),
                              "; in a container: --privileged, or --cap-add for each.");
  return check;
}

Check CheckYama(const Machine& machine, const Capabilities& capabilities) {
  Check check = {.name = "yama"};
  auto text = machine.Read("/proc/sys/kernel/yama/ptrace_scope");
  int scope = 0;
  if (!text.ok()) {
    check.found = "not in this kernel";
    check.meaning = "Only capabilities restrict ptrace.";
    return check;
  }
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(*text), &scope)) {
    check.state = CheckState::kUnchecked;
    check.found = absl::StrCat("kernel.yama.ptrace_scope = '", *text, "'");
    check.meaning = "Unknown value.";
    return check;
  }
  check.found = absl::StrCat("kernel.yama.ptrace_scope = ", scope);
  if (scope >= 3) {
    check.state = CheckState::kFailed;
    check.meaning = "No process may trace another, not even as root.";
    check.remedy =
        "Set kernel.yama.ptrace_scope to 2 or less in /etc/sysctl.d and reboot "
        "(it cannot be lowered while the kernel runs).";
  } else if (scope == 0 || capabilities.CanTraceOthers()) {
    check.meaning = scope == 0 ? "Does not restrict ptrace."
                               : "Does not restrict processes with CAP_SYS_PTRACE.";
  } else {
    check.state = CheckState::kFailed;
    check.meaning = "Restricts ptrace to processes with CAP_SYS_PTRACE.";
    check.remedy = "Run as root, or give the service CAP_SYS_PTRACE.";
  }
  return check;
}

Check CheckSeccompOfSelf(const Machine& machine) {
  Check check = {.name = "seccomp"};
  auto text = machine.Read("/proc/self/status");
  if (!text.ok()) {
    check.state = CheckState::kUnchecked;
    check.found = "/proc/self/status cannot be read";
    check.meaning = "Whether this process has a seccomp filter is unknown.";
    check.remedy = "Mount /proc.";
    return check;
  }
  if (ParseThreadStatus(*text).seccomp_mode == 0) {
    check.found = "this process has no filter";
    return check;
  }
  if (!MayCallPtrace()) {
    check.state = CheckState::kFailed;
    check.found = "this process has a filter that forbids ptrace";
    check.meaning = "No process can be attached to.";
    check.remedy =
        "Allow ptrace in the container's profile or the unit's SystemCallFilter, or "
        "run the container with --security-opt seccomp=unconfined.";
    return check;
  }
  check.state = CheckState::kWarning;
  check.found = "this process has a filter";
  check.meaning =
      "The kernel does not let it read the filters of others: processes with a seccomp "
      "filter, as most in containers have, are refused (seccomp-filter). Profiles of "
      "containers often forbid bpf, perf_event_open and ptrace, too; the checks 'hold' "
      "and 'ptrace' show whether this one does.";
  check.remedy =
      "Run the container with --security-opt seccomp=unconfined. In a systemd unit, "
      "leave out SystemCallFilter= and the other options that set up a filter.";
  return check;
}

Check CheckNamespaces(const Machine& machine) {
  Check check = {.name = "namespaces"};
  auto pid = machine.Link("/proc/self/ns/pid");
  auto user = machine.Link("/proc/self/ns/user");
  if (!pid.ok()) {
    check.state = CheckState::kUnchecked;
    check.found = "/proc/self/ns/pid cannot be read";
    check.meaning = "Whether this is the initial pid namespace is unknown.";
    check.remedy = "Mount /proc.";
    return check;
  }
  bool inner_pid = *pid != kInitialPidNamespace;
  bool inner_user = user.ok() && *user != kInitialUserNamespace;
  check.found =
      absl::StrCat(inner_pid ? "a nested" : "the initial", " pid namespace, ",
                   inner_user ? "a nested" : "the initial", " user namespace");
  if (!inner_pid && !inner_user) {
    check.meaning = "Process IDs are the same as in the BPF programs.";
    return check;
  }
  check.state = CheckState::kFailed;
  std::vector<std::string> remedies;
  if (inner_pid) {
    check.meaning =
        "The BPF programs see the host's process IDs, which do not match those in "
        "this namespace.";
    remedies.push_back(
        "run it on the host, or the container with --pid=host "
        "(hostPID: true in a pod)");
  }
  if (inner_user) {
    absl::StrAppend(&check.meaning, check.meaning.empty() ? "" : " ",
                    "The kernel requires capabilities in the initial user namespace; "
                    "those held in this namespace do not count.");
    remedies.push_back(
        "run it outside the user namespace (not in a rootless container)");
  }
  check.remedy = absl::StrJoin(remedies, "; ");
  check.remedy[0] = absl::ascii_toupper(static_cast<unsigned char>(check.remedy[0]));
  check.remedy += '.';
  return check;
}

Check CheckHidePid(const Machine& machine, const Capabilities& capabilities) {
  Check check = {.name = "proc"};
  auto text = machine.Read("/proc/self/mountinfo");
  if (!text.ok()) {
    check.state = CheckState::kUnchecked;
    check.found = "/proc/self/mountinfo cannot be read";
    check.meaning =
        "Processes are looked up in /proc, which does not seem to be mounted.";
    check.remedy = "Mount /proc.";
    return check;
  }
  std::string hidden;
  for (absl::string_view option : ProcMountOptions(*text)) {
    if (!absl::ConsumePrefix(&option, "hidepid=")) continue;
    if (option != "0" && option != "off") hidden = std::string(option);
  }
  if (hidden.empty()) {
    check.found = "all processes are visible";
    return check;
  }
  check.found = absl::StrCat("mounted with hidepid=", hidden);
  if (capabilities.CanTraceOthers()) {
    check.meaning = "Hides nothing from processes with CAP_SYS_PTRACE.";
  } else {
    check.state = CheckState::kWarning;
    check.meaning = "Other users' processes and their mappings are not visible.";
    check.remedy = "Run as root, or give the service CAP_SYS_PTRACE.";
  }
  return check;
}

}  // namespace rocattach
