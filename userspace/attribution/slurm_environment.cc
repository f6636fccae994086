#include "userspace/attribution/slurm_environment.h"

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rocattach {
namespace {

// Steps whose numbers stand for names (SLURM_BATCH_SCRIPT and so on in slurm.h).
std::string StepName(uint32_t number) {
  switch (number) {
    case 0xfffffffb:
      return "batch";
    case 0xfffffffc:
      return "extern";
    case 0xfffffffa:
      return "interactive";
    default:
      return number >= 0xfffffff0 ? "" : absl::StrCat(number);
  }
}

}  // namespace

bool FillFromEnvironment(absl::string_view environment, WorkloadIdentity* workload) {
  uint32_t job = 0, step = 0, array_job = 0, array_task = 0;
  bool has_step = false, has_array_task = false, valid = true;
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (absl::ConsumePrefix(&entry, "SLURM_JOB_ID=")) {
      if (!absl::SimpleAtoi(entry, &job)) job = 0;
      if (job == 0) valid = false;
    } else if (absl::ConsumePrefix(&entry, "SLURM_STEP_ID=")) {
      has_step = absl::SimpleAtoi(entry, &step);
      if (!has_step || (step >= 0xfffffff0 && StepName(step).empty())) valid = false;
    } else if (absl::ConsumePrefix(&entry, "SLURM_ARRAY_JOB_ID=")) {
      if (!absl::SimpleAtoi(entry, &array_job)) array_job = 0;
      if (array_job == 0) valid = false;
    } else if (absl::ConsumePrefix(&entry, "SLURM_ARRAY_TASK_ID=")) {
      has_array_task = absl::SimpleAtoi(entry, &array_task);
      if (!has_array_task) valid = false;
    }
  }
  const bool is_known = !workload->slurm_job.empty();
  if (job == 0 || (is_known && workload->slurm_job != absl::StrCat(job))) {
    return is_known || valid;
  }
  if (array_job != 0 && has_array_task) {
    workload->slurm_array_job = absl::StrCat(array_job);
    workload->slurm_array_task = absl::StrCat(array_task);
  }
  if (is_known) return true;
  workload->slurm_job = absl::StrCat(job);
  workload->slurm_step = has_step ? StepName(step) : "";
  return valid;
}

}  // namespace rocattach
