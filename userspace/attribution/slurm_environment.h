// The Slurm job of a process, from its environment.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_

#include "absl/strings/string_view.h"
#include "userspace/attribution/workload.h"

namespace rocattach {

// Fills in slurm_job and slurm_step from SLURM_JOB_ID and SLURM_STEP_ID in the text of
// /proc/PID/environ, and the numbers in a job array from SLURM_ARRAY_JOB_ID and
// SLURM_ARRAY_TASK_ID. If the job is known already, fills in only the latter, and only
// if the environment names the same job: a user can put anything into a process's
// environment, but cannot choose its control group. Invalid values are ignored. Returns
// false if there were any and the job was not known, else true.
bool FillFromEnvironment(absl::string_view environment, WorkloadIdentity* workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_
