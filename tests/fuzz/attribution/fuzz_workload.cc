// Any bytes as a process's control groups and environment: the results have the form
// that outputs rely on, and a job from the control group is never replaced.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"
#include "userspace/attribution/cgroup_workload.h"
#include "userspace/attribution/slurm_environment.h"

namespace rocattach {
namespace {

void Require(bool condition) {
  if (!condition) abort();
}

// Letters, digits and three other characters: harmless in labels, JSON and terminals.
bool IsPlain(const std::string& text) {
  for (char c : text) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_' &&
        c != '.') {
      return false;
    }
  }
  return text.size() <= 64;
}

void RequireValid(const WorkloadIdentity& found) {
  Require(IsPlain(found.container_id) && IsPlain(found.pod_uid));
  Require(IsPlain(found.slurm_job) && IsPlain(found.slurm_step));
  Require(!found.slurm_job.empty() || found.slurm_step.empty());
  // Neither input contains these.
  Require(found.executable.empty() && found.container.empty() && found.pod.empty());
  Require(found.kube_namespace.empty() && found.node.empty());
}

void Try(absl::string_view groups, absl::string_view environment) {
  WorkloadIdentity found;
  FillFromCgroups(groups, &found);
  RequireValid(found);
  const WorkloadIdentity of_groups = found;
  (void)FillFromEnvironment(environment, &found);
  RequireValid(found);
  if (!of_groups.slurm_job.empty()) Require(found == of_groups);
}

}  // namespace
}  // namespace rocattach

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  // Each input alone, and both, divided at the byte that the seeds use.
  rocattach::Try(bytes, "");
  rocattach::Try("", bytes);
  const size_t middle = bytes.find('\xff');
  if (middle != absl::string_view::npos) {
    rocattach::Try(bytes.substr(0, middle), bytes.substr(middle + 1));
  }
  return 0;
}
