// Which format of /metrics a scraper asks for.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_ACCEPTED_FORMAT_H_
#define ROCATTACH_USERSPACE_TELEMETRY_ACCEPTED_FORMAT_H_

#include "absl/strings/string_view.h"

namespace rocattach {

// The value of the header Accept prefers Prometheus's delimited protobuf to its text.
// Who names neither, or both alike, gets text. What cannot be understood counts as not
// said.
bool PrefersPrometheusProtobuf(absl::string_view accept);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_ACCEPTED_FORMAT_H_
