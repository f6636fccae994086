#include "userspace/attribution/slurm_environment.h"

#include <cstdint>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace rocattach {
namespace {

// Slurm's numbers of steps that have names (SLURM_BATCH_SCRIPT and so on in slurm.h).
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
  if (!workload->slurm_job.empty()) return true;
  uint32_t job = 0, step = 0;
  bool has_step = false, valid = true;
  for (absl::string_view entry : absl::StrSplit(environment, '\0')) {
    if (absl::ConsumePrefix(&entry, "SLURM_JOB_ID=")) {
      if (!absl::SimpleAtoi(entry, &job)) job = 0;
      if (job == 0) valid = false;
    } else if (absl::ConsumePrefix(&entry, "SLURM_STEP_ID=")) {
      has_step = absl::SimpleAtoi(entry, &step);
      if (!has_step || (step >= 0xfffffff0 && StepName(step).empty())) valid = false;
    }
  }
  if (job == 0) return valid;
  workload->slurm_job = absl::StrCat(job);
  workload->slurm_step = has_step ? StepName(step) : "";
  return valid;
}

}  // namespace rocattach
