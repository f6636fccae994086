#include "injector/process/denial.h"

#include <linux/capability.h>

#include <cstddef>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "injector/process/thread_status.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

constexpr size_t kSmallFile = 64 << 10;

// Files of this machine, or of a test's file tree.
class Files {
 public:
  explicit Files(absl::string_view root) : root_(root) {}

  // Without the newline or the zero byte at its end; empty if it cannot be read.
  std::string Read(absl::string_view path) const {
    auto text = ReadFile(absl::StrCat(root_, path), kSmallFile);
    if (!text.ok()) return "";
    const std::string first = text->substr(0, text->find('\0'));
    return std::string(absl::StripAsciiWhitespace(first));
  }
  // The security label of a process, "self" for this one. Where several security
  // modules are stacked, each has a directory of its own.
  std::string Label(absl::string_view process, absl::string_view module) const {
    const std::string attributes = absl::StrCat("/proc/", process, "/attr/");
    std::string label = Read(absl::StrCat(attributes, module, "/current"));
    return label.empty() ? Read(absl::StrCat(attributes, "current")) : label;
  }

 private:
  const std::string root_;
};

bool MayTrace(const Files& files) {
  const ThreadStatus status = ParseThreadStatus(files.Read("/proc/self/status"));
  return (status.effective_capabilities & 1ull << CAP_SYS_PTRACE) != 0;
}

std::string YamaDenial(const std::string& scope, bool may_trace) {
  const std::string setting = absl::StrCat("kernel.yama.ptrace_scope is ", scope);
  if (scope == "3") {
    return absl::StrCat(setting,
                        ": nobody may trace processes until the machine restarts with "
                        "another value (/etc/sysctl.d)");
  }
  if (may_trace || (scope != "1" && scope != "2")) return "";
  return absl::StrCat(setting, ": only tracers with CAP_SYS_PTRACE are permitted",
                      scope == "1" ? ", or those that started the process" : "",
                      "; run rocattach as root");
}

bool EnforcesSelinux(const Files& files) {
  return files.Read("/sys/fs/selinux/enforce") == "1";
}

std::string SelinuxDenial(const Files& files, const std::string& pid) {
  if (!EnforcesSelinux(files)) return "";
  return absl::StrCat(
      "SELinux is enforcing and does not let ", files.Label("self", "selinux"),
      " trace ", files.Label(pid, "selinux"),
      ": 'ausearch -m avc -ts recent' shows the denial; allow it in the policy (class "
      "process, permission ptrace), or 'setsebool deny_ptrace off' if that is the "
      "cause");
}

// The name of the profile that confines a process; empty: none does. The kernel's form
// is "NAME (enforce)"; a profile in complain mode denies nothing.
std::string EnforcedProfile(const Files& files, absl::string_view process) {
  if (files.Read("/sys/module/apparmor/parameters/enabled") != "Y") return "";
  const std::string label = files.Label(process, "apparmor");
  for (absl::string_view mode : {" (enforce)", " (kill)"}) {
    absl::string_view profile = label;
    if (absl::ConsumeSuffix(&profile, mode)) return std::string(profile);
  }
  return "";
}

std::string AppArmorDenial(const Files& files, const std::string& pid) {
  const std::string own = EnforcedProfile(files, "self");
  const std::string theirs = EnforcedProfile(files, pid);
  if (own.empty() && theirs.empty()) return "";
  return absl::StrCat(
      "AppArmor does not permit it: ",
      own.empty() ? ""
                  : absl::StrCat("the profile ", own,
                                 ", which confines rocattach, needs 'ptrace (trace, "
                                 "read),'"),
      own.empty() || theirs.empty() ? "" : "; ",
      theirs.empty() ? ""
                     : absl::StrCat("the profile ", theirs,
                                    ", which confines the process, needs 'ptrace "
                                    "(tracedby, readby),'"));
}

}  // namespace

std::string ExplainTraceDenial(pid_t pid, absl::string_view root) {
  const Files files(root);
  const std::string number = absl::StrCat(pid);
  const bool may_trace = MayTrace(files);
  // In order of certainty: Yama's file and the capability leave no doubt.
  std::string yama =
      YamaDenial(files.Read("/proc/sys/kernel/yama/ptrace_scope"), may_trace);
  if (!yama.empty()) return yama;
  if (!may_trace) {
    return "rocattach lacks CAP_SYS_PTRACE; run it as root, or give it that capability";
  }
  const std::string selinux = SelinuxDenial(files, number);
  const std::string apparmor = AppArmorDenial(files, number);
  if (!selinux.empty() || !apparmor.empty()) {
    return absl::StrCat(selinux, selinux.empty() || apparmor.empty() ? "" : "; or ",
                        apparmor);
  }
  const std::string label = files.Label(number, "selinux");
  return absl::StrCat(
      "CAP_SYS_PTRACE is there, so it is a security module, or the process belongs to "
      "a "
      "user namespace that this one has no rights in",
      label.empty() ? "" : absl::StrCat(" (security label ", label, ")"));
}

bool SpeaksOfDenial(absl::string_view error) {
  return absl::StrContains(error, "Permission denied") ||
         absl::StrContains(error, "Operation not permitted");
}

std::string ExplainLoadDenial(pid_t pid, absl::string_view root) {
  const Files files(root);
  const std::string number = absl::StrCat(pid);
  if (EnforcesSelinux(files)) {
    return absl::StrCat(
        "SELinux is enforcing and may forbid it to ", files.Label(number, "selinux"),
        ": 'ausearch -m avc -ts recent' shows the denial; allow that domain to read, "
        "map and execute files with the label of the collector (as lib_t), and to use "
        "the descriptors of ",
        files.Label("self", "selinux"));
  }
  const std::string profile = EnforcedProfile(files, number);
  if (profile.empty()) return "";
  return absl::StrCat("the AppArmor profile ", profile,
                      ", which confines the process, must permit to read and map the "
                      "collector's file ('m' and 'r')");
}

}  // namespace rocattach
