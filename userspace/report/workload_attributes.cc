#include "userspace/report/workload_attributes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "userspace/report/text.h"

namespace rocattach {
namespace {

// Enough to identify a container; runtimes show as many characters.
constexpr size_t kShortId = 12;

}  // namespace

std::vector<std::pair<std::string, std::string>> WorkloadAttributes(
    const v1::Workload& workload) {
  std::vector<std::pair<std::string, std::string>> attributes;
  const auto add = [&attributes](const char* name, const std::string& value) {
    if (!value.empty()) attributes.emplace_back(name, value);
  };
  add("container.id", workload.container_id());
  add("k8s.container.name", workload.container());
  add("k8s.pod.name", workload.pod());
  add("k8s.pod.uid", workload.pod_uid());
  add("k8s.namespace.name", workload.kube_namespace());
  add("k8s.node.name", workload.node());
  add("slurm.job.id", workload.slurm_job());
  add("slurm.step.id", workload.slurm_step());
  add("slurm.array.job.id", workload.slurm_array_job());
  add("slurm.array.task.id", workload.slurm_array_task());
  return attributes;
}

std::string WorkloadText(const v1::Workload& workload) {
  std::vector<std::string> parts;
  if (!workload.pod().empty()) {
    const std::string space =
        workload.kube_namespace().empty() ? "" : workload.kube_namespace() + "/";
    parts.push_back(absl::StrCat("pod ", space, workload.pod()));
  } else if (!workload.pod_uid().empty()) {
    parts.push_back(absl::StrCat("pod ", workload.pod_uid()));
  }
  if (!workload.container().empty()) {
    parts.push_back(absl::StrCat("container ", workload.container()));
  } else if (!workload.container_id().empty()) {
    parts.push_back(
        absl::StrCat("container ", workload.container_id().substr(0, kShortId)));
  }
  if (!workload.slurm_job().empty()) {
    const std::string step =
        workload.slurm_step().empty() ? "" : "." + workload.slurm_step();
    // As squeue writes it: ARRAY_TASK.
    const std::string part = workload.slurm_array_job().empty()
                                 ? ""
                                 : absl::StrCat(" (", workload.slurm_array_job(), "_",
                                                workload.slurm_array_task(), ")");
    parts.push_back(absl::StrCat("Slurm job ", workload.slurm_job(), step, part));
  }
  if (!workload.node().empty()) parts.push_back(absl::StrCat("node ", workload.node()));
  return TerminalSafe(absl::StrJoin(parts, ", "));
}

}  // namespace rocattach
