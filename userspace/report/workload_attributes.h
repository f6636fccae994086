// The workload of a process, as attributes that monitoring systems know.
#ifndef ROCATTACH_USERSPACE_REPORT_WORKLOAD_ATTRIBUTES_H_
#define ROCATTACH_USERSPACE_REPORT_WORKLOAD_ATTRIBUTES_H_

#include <string>
#include <utility>
#include <vector>

#include "schemas/stream.pb.h"

namespace rocattach {

// Named by OpenTelemetry's conventions ("k8s.pod.name", "container.id"; these have no
// names for Slurm: "slurm.job.id"), with values as recorded; unknown ones are omitted.
std::vector<std::pair<std::string, std::string>> WorkloadAttributes(
    const v1::Workload& workload);

// One line for people; empty if nothing is known.
std::string WorkloadText(const v1::Workload& workload);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_WORKLOAD_ATTRIBUTES_H_
