// Families of metrics in Prometheus's protobuf format.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_PROTOBUF_PAGE_H_
#define ROCATTACH_USERSPACE_TELEMETRY_PROTOBUF_PAGE_H_

#include <string>

#include "userspace/telemetry/family_sink.h"

namespace rocattach {

inline constexpr char kPrometheusProtobuf[] =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
    "encoding=delimited";

// Appends a family, with its length before it. Histograms have their classic buckets,
// and native ones where the family has them.
void AppendDelimited(const ExposedFamily& family, std::string* page);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_PROTOBUF_PAGE_H_
