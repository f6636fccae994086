// How metrics are pushed by the OpenTelemetry protocol: from the options, and from the
// environment variables that its specification names.
#ifndef ROCATTACH_USERSPACE_PUSH_OTLP_SETTINGS_H_
#define ROCATTACH_USERSPACE_PUSH_OTLP_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/push/http_post.h"

namespace rocattach {

struct OtlpSettings {
  HttpPostOptions post;  // its headers are complete
  uint64_t timeout_msec = 10'000;
  uint64_t interval_msec = 60'000;
  bool gzip = true;
  // Of the resource that the service is: service.name and the like.
  std::vector<std::pair<std::string, std::string>> attributes;
};

// The value of an environment variable; empty if it is not set.
using GetVariable = std::function<std::string(const char* name)>;

// `endpoint`: a base URL, to which v1/metrics is added unless it ends with that.
// `interval_msec` 0: OTEL_METRIC_EXPORT_INTERVAL, or 60 s. Honoured are also
// OTEL_EXPORTER_OTLP_{HEADERS,TIMEOUT,COMPRESSION,CERTIFICATE,CLIENT_CERTIFICATE,
// CLIENT_KEY,PROTOCOL} and the same with _METRICS_, OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES. INVALID_ARGUMENT names the option or variable and what is
// wrong with it, never the value of a header.
absl::StatusOr<OtlpSettings> MakeOtlpSettings(const std::string& endpoint,
                                              uint64_t interval_msec,
                                              const GetVariable& variable);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_OTLP_SETTINGS_H_
