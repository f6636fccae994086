// What the kernel driver says of GPUs and processes, as families of metrics.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_FAMILIES_H_
#define ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_FAMILIES_H_

#include "userspace/telemetry/family_sink.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// As EmitFamilies(): these are a part of it.
void EmitGpuUse(const NodeSnapshot& node, FamilySink sink);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_GPU_USE_FAMILIES_H_
