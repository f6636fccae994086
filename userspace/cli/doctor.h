// rocattach doctor: what this machine lacks for attaching, and how to get it.
#ifndef ROCATTACH_USERSPACE_CLI_DOCTOR_H_
#define ROCATTACH_USERSPACE_CLI_DOCTOR_H_

#include <CLI/CLI.hpp>

namespace rocattach {

// Adds the subcommand to `app`. When it was chosen, parsing runs it and leaves the exit
// status in `*status`, which must outlive the parsing.
void AddDoctorCommand(CLI::App* app, int* status);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_DOCTOR_H_
