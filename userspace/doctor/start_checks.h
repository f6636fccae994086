// The checks that a service makes before it starts: those whose failure means that it
// would run and attach to nothing.
#ifndef ROCATTACH_USERSPACE_DOCTOR_START_CHECKS_H_
#define ROCATTACH_USERSPACE_DOCTOR_START_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/machine.h"

namespace rocattach {

// The purpose of a run.
struct StartNeeds {
  bool attaches = true;  // processes are entered, not only seen
  // Also processes of other users. Without CAP_SYS_PTRACE, only processes that have no
  // more privileges than the service may be entered, such as its own children.
  bool enters_all = true;
};

struct StartFindings {
  // FAILED_PRECONDITION with the text of 'rocattach doctor' if the run cannot do any of
  // the work that it is meant for.
  absl::Status status;
  // Failed checks that matter only for work that this run does not do.
  std::vector<Check> limits;
};

// Reads a few files, in well under a millisecond; see ReadMachine() for the others.
StartFindings CheckStart(const StartNeeds& needs, const Machine& machine,
                         const std::string& kernel_release,
                         const std::string& kernel_machine);
// The same for this machine.
StartFindings CheckStart(const StartNeeds& needs);

// "namespaces: a nested pid namespace …", with its meaning and its remedy.
std::string CheckText(const Check& check);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_START_CHECKS_H_
