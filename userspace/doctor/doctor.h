// Checks whether a machine can attach to GPU processes, and reports what is missing.
#ifndef ROCATTACH_USERSPACE_DOCTOR_DOCTOR_H_
#define ROCATTACH_USERSPACE_DOCTOR_DOCTOR_H_

#include <string>
#include <vector>

#include "userspace/doctor/check.h"
#include "userspace/doctor/machine.h"
#include "userspace/watch/windows/kernel_probe.h"

namespace rocattach {

struct DoctorOptions {
  std::vector<std::string> libraries;  // as rocattach-watch --library
  std::string collector;               // as rocattach-watch --collector
  HoldMode best_hold_mode = HoldMode::kYielding;
};

// Runs every check, in the order in which one depends on another. Changes nothing on
// the machine; takes about a third of a second, most of it the kernel's removal of the
// probe. Call it from a process with one thread: it forks.
DoctorReport RunDoctor(const DoctorOptions& options);

// Runs only the checks that read files, on the machine below a root directory.
DoctorReport ReadMachine(const Machine& machine, const std::string& kernel_release,
                         const std::string& kernel_machine);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_DOCTOR_H_
