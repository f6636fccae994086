// A snapshot as Prometheus's families of metrics.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_METRIC_FAMILIES_H_
#define ROCATTACH_USERSPACE_TELEMETRY_METRIC_FAMILIES_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "absl/functional/function_ref.h"
#include "userspace/base/demangler.h"
#include "userspace/base/power_histogram.h"
#include "userspace/telemetry/self_usage.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// One family, as it is passed on.
struct ExposedFamily : prometheus::MetricFamily {
  // For histograms, one for each of `metric`: the source of its classic buckets.
  std::vector<PowerHistogram> native;
};

using FamilySink = absl::FunctionRef<void(ExposedFamily)>;

// Emits one family at a time, so that they are never all in memory. The names are a
// stable interface: docs/metrics.md lists them.
void EmitFamilies(const NodeSnapshot& snapshot, const SelfUsage& self,
                  Demangler* demangler, FamilySink sink);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRIC_FAMILIES_H_
