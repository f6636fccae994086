// Families of metrics in Prometheus's protobuf format, and whether a client wants it.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_PROTOBUF_PAGE_H_
#define ROCATTACH_USERSPACE_TELEMETRY_PROTOBUF_PAGE_H_

#include <string>

#include "absl/strings/string_view.h"
#include "userspace/telemetry/metric_families.h"

namespace rocattach {

inline constexpr char kPrometheusProtobuf[] =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; "
    "encoding=delimited";

// Appends a family, preceded by its length. Histograms have their classic buckets,
// and native ones if the family has them.
void AppendDelimited(const ExposedFamily& family, std::string* page);

// True if the value of the header Accept prefers Prometheus's delimited protobuf to its
// text format. Clients that name neither, or both alike, get text. Parts that cannot be
// parsed count as absent.
bool PrefersPrometheusProtobuf(absl::string_view accept);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_PROTOBUF_PAGE_H_
