// The kernel driver's data on GPUs and processes, as families of metrics.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_FAMILIES_H_
#define ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_FAMILIES_H_

#include "userspace/telemetry/metric_families.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// See EmitFamilies(): these families are a part of its output.
void EmitGpuUse(const NodeSnapshot& node, FamilySink sink);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_FAMILIES_H_
