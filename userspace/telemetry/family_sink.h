// Where families of metrics go.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_FAMILY_SINK_H_
#define ROCATTACH_USERSPACE_TELEMETRY_FAMILY_SINK_H_

#include <prometheus/metric_family.h>

#include <vector>

#include "absl/functional/function_ref.h"
#include "userspace/base/power_histogram.h"

namespace rocattach {

struct ExposedFamily : prometheus::MetricFamily {
  // Of histograms, one for each of `metric`: what their classic buckets are made from.
  std::vector<PowerHistogram> native;
};

using FamilySink = absl::FunctionRef<void(ExposedFamily)>;

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_FAMILY_SINK_H_
