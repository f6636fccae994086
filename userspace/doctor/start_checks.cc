#include "userspace/doctor/start_checks.h"

#include <sys/utsname.h>

#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "userspace/doctor/kernel_checks.h"
#include "userspace/doctor/privilege_checks.h"

namespace rocattach {
namespace {

// The runs that end if a check fails.
enum class Needed { kAlways, kToAttach, kToEnterAll };

bool IsNeeded(Needed needed, const StartNeeds& needs) {
  switch (needed) {
    case Needed::kAlways:
      return true;
    case Needed::kToAttach:
      return needs.attaches;
    case Needed::kToEnterAll:
      return needs.attaches && needs.enters_all;
  }
  return true;
}

// True if Yama is at level 1, which lets any process trace its own descendants.
bool LeavesDescendants(const Machine& machine) {
  const auto scope = machine.Read("/proc/sys/kernel/yama/ptrace_scope");
  return scope.ok() && absl::StripAsciiWhitespace(*scope) == "1";
}

// Most capabilities are always needed; CAP_SYS_PTRACE is for other users' processes.
Needed NeedOf(const Capabilities& capabilities) {
  return capabilities.CanLoadBpf() && capabilities.CanAttachUprobes()
             ? Needed::kToEnterAll
             : Needed::kAlways;
}

}  // namespace

std::string CheckText(const Check& check) {
  return absl::StrCat(check.name, ": ", check.found, ". ", check.meaning, " ",
                      check.remedy);
}

StartFindings CheckStart(const StartNeeds& needs, const Machine& machine,
                         const std::string& kernel_release,
                         const std::string& kernel_machine) {
  const Capabilities capabilities = ReadCapabilities(machine);
  const std::pair<Check, Needed> checks[] = {
      {CheckKernel(kernel_release, kernel_machine), Needed::kAlways},
      {CheckNamespaces(machine), Needed::kAlways},
      {CheckCapabilities(capabilities), NeedOf(capabilities)},
      {CheckBtf(machine), Needed::kAlways},
      {CheckUprobeSource(machine), Needed::kAlways},
      {CheckLockdown(machine), Needed::kAlways},
      {CheckYama(machine, capabilities),
       LeavesDescendants(machine) ? Needed::kToEnterAll : Needed::kToAttach},
      {CheckSeccompOfSelf(machine), Needed::kToAttach},
  };
  StartFindings findings;
  for (const auto& [check, needed] : checks) {
    if (check.state != CheckState::kFailed) continue;
    if (!IsNeeded(needed, needs)) {
      findings.limits.push_back(check);
    } else if (findings.status.ok()) {
      findings.status = absl::FailedPreconditionError(
          absl::StrCat(needs.attaches ? "no process can be attached to here"
                                      : "no process can be seen here",
                       " ('rocattach doctor' shows all checks): ", CheckText(check)));
    }
  }
  return findings;
}

StartFindings CheckStart(const StartNeeds& needs) {
  utsname name = {};
  (void)uname(&name);  // cannot fail with a valid buffer
  return CheckStart(needs, Machine(), name.release, name.machine);
}

}  // namespace rocattach
