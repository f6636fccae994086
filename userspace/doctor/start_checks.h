// The checks that a service makes before it starts: those that say that it would run and
// attach to nothing.
#ifndef ROCATTACH_USERSPACE_DOCTOR_START_CHECKS_H_
#define ROCATTACH_USERSPACE_DOCTOR_START_CHECKS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "userspace/doctor/check.h"
#include "userspace/doctor/machine.h"

namespace rocattach {

// What a run is for.
struct StartNeeds {
  bool attaches = true;  // processes are entered, not only seen
  // Processes of other users as well. Without that, those that have no more privileges
  // than the service may be entered without CAP_SYS_PTRACE, such as its own children.
  bool enters_all = true;
};

struct StartFindings {
  // FAILED_PRECONDITION with what 'rocattach doctor' says, if the run cannot do anything
  // of what it is for.
  absl::Status status;
  // Checks that fail and matter only for what this run does not do.
  std::vector<Check> limits;
};

// Reads a few files, in well under a millisecond; see ReadMachine() for the others.
StartFindings CheckStart(const StartNeeds& needs, const Machine& machine,
                         const std::string& kernel_release,
                         const std::string& kernel_machine);
// For this machine.
StartFindings CheckStart(const StartNeeds& needs);

// "namespaces: a nested pid namespace …", with its meaning and its remedy.
std::string CheckText(const Check& check);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_START_CHECKS_H_
