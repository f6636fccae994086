// Which Slurm job a process belongs to, as its environment says.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_

#include "absl/strings/string_view.h"
#include "userspace/attribution/workload.h"

namespace rocattach {

// Fills in slurm_job and slurm_step from SLURM_JOB_ID and SLURM_STEP_ID in the text of
// /proc/PID/environ, and the numbers in a job array from SLURM_ARRAY_JOB_ID and
// SLURM_ARRAY_TASK_ID. If the job is known already, only the latter, and only if the
// environment is of that job: its owner can put anything into a process's environment,
// but not choose its control group. Values that are no job's are ignored: false then,
// else true.
bool FillFromEnvironment(absl::string_view environment, WorkloadIdentity* workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_
