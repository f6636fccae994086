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

// What all series of a process have, and `more`. What is not known has no label.
MetricLabels ProcessLabels(const ProcessSnapshot& process, MetricLabels more = {});
// The same of any process that is known by these.
MetricLabels ProcessLabels(uint32_t pid, const std::string& comm,
                           const WorkloadIdentity& workload, MetricLabels more = {});
// Those of the workload, and `more`. Names alone would not do: a pod that is created
// again, or a container that starts again, has the names of the former one.
MetricLabels WorkloadLabels(const WorkloadIdentity& workload, MetricLabels more = {});
// And what is known of it beyond that.
MetricLabels InfoLabels(const ProcessSnapshot& process);
// The same of one that uses GPUs, whether it is attached or not.
MetricLabels InfoLabels(const ProcessUseSnapshot& process);
MetricLabels GpuLabels(const std::string& key, const GpuSnapshot& gpu);
// 16 hexadecimal digits.
std::string KernelId(uint64_t id);
// "2026-03-01T12:30:00.250Z".
std::string WallTimeText(uint64_t wall_ns);
// A kernel's name for people, not too long for a label.
std::string ShortName(const std::string& mangled, Demangler* demangler);
// By rocattach_copy_direction: "host_to_device".
const char* DirectionLabel(size_t direction);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRIC_LABELS_H_
