// Checks of what this process may do: capabilities, namespaces, security modules.
#ifndef ROCATTACH_USERSPACE_DOCTOR_PRIVILEGE_CHECKS_H_
#define ROCATTACH_USERSPACE_DOCTOR_PRIVILEGE_CHECKS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/machine.h"

namespace rocattach {

// Effective capabilities, as bits of CapEff in /proc/self/status.
class Capabilities {
 public:
  // Numbers from include/uapi/linux/capability.h.
  enum Number {
    kDacOverride = 1,
    kDacReadSearch = 2,
    kKill = 5,
    kSysPtrace = 19,
    kSysAdmin = 21,
    kSysNice = 23,
    kPerfmon = 38,
    kBpf = 39,
    kCheckpointRestore = 40,
  };
  // No bits: no capabilities.
  explicit Capabilities(uint64_t bits = 0) : bits_(bits) {}
  bool Has(Number number) const { return ((bits_ >> number) & 1) != 0; }
  // CAP_SYS_ADMIN includes the three that were split off it.
  bool CanLoadBpf() const;
  // Uprobes go through the uprobe event source, which requires CAP_SYS_ADMIN.
  bool CanAttachUprobes() const { return Has(kSysAdmin); }
  bool CanTraceOthers() const { return Has(kSysPtrace); }

 private:
  uint64_t bits_;
};

// The capabilities in /proc/self/status; none if it cannot be read.
Capabilities ReadCapabilities(const Machine& machine);

// "capabilities": each capability that the service uses, and its purpose.
Check CheckCapabilities(const Capabilities& capabilities);

// "yama": kernel.yama.ptrace_scope.
Check CheckYama(const Machine& machine, const Capabilities& capabilities);

// "seccomp": a filter on this process, as containers have.
Check CheckSeccompOfSelf(const Machine& machine);

// "namespaces": BPF programs give process numbers of the initial pid namespace, and
// capabilities count in the initial user namespace only.
Check CheckNamespaces(const Machine& machine);

// "proc": /proc mounted with hidepid hides the processes of other users.
Check CheckHidePid(const Machine& machine, const Capabilities& capabilities);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_PRIVILEGE_CHECKS_H_
