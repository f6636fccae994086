// Settings for pushing metrics by the OpenTelemetry protocol: from the options, and
// from the environment variables in its specification.
#ifndef ROCATTACH_USERSPACE_PUSH_OTLP_SETTINGS_H_
#define ROCATTACH_USERSPACE_PUSH_OTLP_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/push/http_post.h"

namespace rocattach {

struct OtlpSettings {
  HttpPostOptions post;  // its headers are complete
  uint64_t timeout_msec = 10'000;
  uint64_t interval_msec = 60'000;
  bool gzip = true;
  // Attributes of the service's resource: service.name and the like.
  std::vector<std::pair<std::string, std::string>> attributes;
};

// The value of an environment variable; empty if it is not set.
using GetVariable = std::function<std::string(const char* name)>;

// `endpoint`: a base URL, to which v1/metrics is added unless it ends with that.
// `interval_msec` 0: OTEL_METRIC_EXPORT_INTERVAL, or 60 s. Also honoured are
// OTEL_EXPORTER_OTLP_{HEADERS,TIMEOUT,COMPRESSION,CERTIFICATE,CLIENT_CERTIFICATE,
// CLIENT_KEY,PROTOCOL} and the same with _METRICS_, OTEL_SERVICE_NAME and
// OTEL_RESOURCE_ATTRIBUTES. INVALID_ARGUMENT names the option or variable and the
// problem, never the value of a header.
absl::StatusOr<OtlpSettings> MakeOtlpSettings(const std::string& endpoint,
                                              uint64_t interval_msec,
                                              const GetVariable& variable);

// A list in the format of OpenTelemetry's environment variables.
using NameValueList = std::vector<std::pair<std::string, std::string>>;

// "a=1,b=2", values percent-encoded: the format of W3C Baggage, which the specification
// uses for headers and attributes. INVALID_ARGUMENT names `variable`, but no value.
absl::StatusOr<NameValueList> ParseNameValueList(absl::string_view variable,
                                                 absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_OTLP_SETTINGS_H_
