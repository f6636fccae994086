// Which Slurm job a process belongs to, as its environment says.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_

#include "absl/strings/string_view.h"
#include "userspace/attribution/workload.h"

namespace rocattach {

// Fills in slurm_job and slurm_step from SLURM_JOB_ID and SLURM_STEP_ID in the text of
// /proc/PID/environ. Does nothing if the job is known already: its owner can put
// anything into a process's environment, but not choose its control group. Values
// that are no job's are ignored: false then, else true.
bool FillFromEnvironment(absl::string_view environment, WorkloadIdentity* workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_SLURM_ENVIRONMENT_H_
