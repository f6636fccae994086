// The labels of metrics.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_METRIC_LABELS_H_
#define ROCATTACH_USERSPACE_TELEMETRY_METRIC_LABELS_H_

#include <prometheus/client_metric.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/base/demangler.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

using MetricLabels = std::vector<prometheus::ClientMetric::Label>;

// The labels of all series of a process, and `more`. Unknown values have no label.
MetricLabels ProcessLabels(const ProcessSnapshot& process, MetricLabels more = {});
// The same for a process of which only these values are known.
MetricLabels ProcessLabels(uint32_t pid, const std::string& comm,
                           const WorkloadIdentity& workload, MetricLabels more = {});
// The labels of a workload, and `more`. Names are not enough: a pod that is created
// again, or a container that is restarted, has the same names as before.
MetricLabels WorkloadLabels(const WorkloadIdentity& workload, MetricLabels more = {});
// The labels of a process, and everything else that is known of it.
MetricLabels InfoLabels(const ProcessSnapshot& process);
// The same for a process that uses GPUs, whether it is attached or not.
MetricLabels InfoLabels(const ProcessUseSnapshot& process);
MetricLabels GpuLabels(const std::string& key, const GpuSnapshot& gpu);
// 16 hexadecimal digits.
std::string KernelId(uint64_t id);
// "2026-03-01T12:30:00.250Z".
std::string WallTimeText(uint64_t wall_ns);
// A kernel's name, demangled and short enough for a label.
std::string ShortName(const std::string& mangled, Demangler* demangler);
// The name of a rocattach_copy_direction: "host_to_device".
const char* DirectionLabel(size_t direction);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRIC_LABELS_H_
