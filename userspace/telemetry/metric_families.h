// A snapshot as Prometheus's families of metrics.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_METRIC_FAMILIES_H_
#define ROCATTACH_USERSPACE_TELEMETRY_METRIC_FAMILIES_H_

#include "userspace/base/demangler.h"
#include "userspace/telemetry/family_sink.h"
#include "userspace/telemetry/self_usage.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// One family at a time, so that never all of them are in memory. The names are a
// contract: docs/metrics.md lists them.
void EmitFamilies(const NodeSnapshot& snapshot, const SelfUsage& self,
                  Demangler* demangler, FamilySink sink);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRIC_FAMILIES_H_
