// Where families of metrics go.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_FAMILY_SINK_H_
#define ROCATTACH_USERSPACE_TELEMETRY_FAMILY_SINK_H_

#include <prometheus/metric_family.h>

#include "absl/functional/function_ref.h"

namespace rocattach {

using FamilySink = absl::FunctionRef<void(prometheus::MetricFamily)>;

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_FAMILY_SINK_H_
