#include "userspace/push/otlp_settings.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr uint64_t kDefaultIntervalMsec = 60'000;
constexpr uint64_t kShortestIntervalMsec = 100;
constexpr uint64_t kLongestMsec = 86'400'000;

class Variables {
 public:
  explicit Variables(const GetVariable& get) : get_(get) {}

  // OTEL_EXPORTER_OTLP_METRICS_`suffix`, or else OTEL_EXPORTER_OTLP_`suffix`.
  std::string Exporter(absl::string_view suffix) {
    for (const char* prefix : {"OTEL_EXPORTER_OTLP_METRICS_", "OTEL_EXPORTER_OTLP_"}) {
      name_ = absl::StrCat(prefix, suffix);
      if (std::string value = get_(name_.c_str()); !value.empty()) return value;
    }
    return "";
  }
  std::string Other(const char* name) {
    name_ = name;
    return get_(name);
  }
  // The name of the variable that was read last.
  const std::string& name() const { return name_; }

  absl::Status Milliseconds(const std::string& value, uint64_t least,
                            uint64_t* msec) const {
    if (value.empty()) return absl::OkStatus();
    if (absl::SimpleAtoi(value, msec) && *msec >= least && *msec <= kLongestMsec) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        name_, "=", value, ": not a number of milliseconds from ", least, " on"));
  }

 private:
  const GetVariable& get_;
  std::string name_;
};

std::string MetricsUrl(absl::string_view endpoint) {
  endpoint = absl::StripSuffix(endpoint, "/");
  return absl::EndsWith(endpoint, "/v1/metrics")
             ? std::string(endpoint)
             : absl::StrCat(endpoint, "/v1/metrics");
}

absl::Status ReadTransport(Variables* variables, OtlpSettings* settings) {
  if (const std::string protocol = variables->Exporter("PROTOCOL");
      !protocol.empty() && protocol != "http/protobuf") {
    return absl::InvalidArgumentError(absl::StrCat(
        variables->name(), "=", protocol,
        ": only http/protobuf is supported; collectors listen for it at port 4318"));
  }
  if (const std::string compression = variables->Exporter("COMPRESSION");
      !compression.empty()) {
    if (compression != "gzip" && compression != "none") {
      return absl::InvalidArgumentError(
          absl::StrCat(variables->name(), "=", compression, ": neither gzip nor none"));
    }
    settings->gzip = compression == "gzip";
  }
  settings->post.ca_file = variables->Exporter("CERTIFICATE");
  settings->post.certificate_file = variables->Exporter("CLIENT_CERTIFICATE");
  settings->post.key_file = variables->Exporter("CLIENT_KEY");
  settings->post.headers = {"Content-Type: application/x-protobuf",
                            // Otherwise large requests wait for "100 Continue".
                            "Expect:"};
  if (settings->gzip) settings->post.headers.push_back("Content-Encoding: gzip");
  const std::string text = variables->Exporter("HEADERS");
  ASSIGN_OR_RETURN(const NameValueList headers,
                   ParseNameValueList(variables->name(), text));
  for (const auto& [name, value] : headers) {
    settings->post.headers.push_back(absl::StrCat(name, ": ", value));
  }
  return absl::OkStatus();
}

// Decodes "%2C" to ','. False if a '%' is not followed by two hexadecimal digits.
bool PercentDecode(absl::string_view text, std::string* decoded) {
  decoded->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      decoded->push_back(text[i]);
      continue;
    }
    uint32_t byte = 0;
    if (i + 2 >= text.size() ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) ||
        !absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2])) ||
        !absl::SimpleHexAtoi(text.substr(i + 1, 2), &byte)) {
      return false;
    }
    decoded->push_back(static_cast<char>(byte));
    i += 2;
  }
  return true;
}

}  // namespace

absl::StatusOr<OtlpSettings> MakeOtlpSettings(const std::string& endpoint,
                                              uint64_t interval_msec,
                                              const GetVariable& variable) {
  OtlpSettings settings;
  Variables variables(variable);
  settings.post.url = MetricsUrl(endpoint);
  RETURN_IF_ERROR(ReadTransport(&variables, &settings));
  RETURN_IF_ERROR(
      variables.Milliseconds(variables.Exporter("TIMEOUT"), 1, &settings.timeout_msec));
  settings.interval_msec = interval_msec;
  if (interval_msec == 0) {
    settings.interval_msec = kDefaultIntervalMsec;
    RETURN_IF_ERROR(
        variables.Milliseconds(variables.Other("OTEL_METRIC_EXPORT_INTERVAL"),
                               kShortestIntervalMsec, &settings.interval_msec));
  }
  const std::string text = variables.Other("OTEL_RESOURCE_ATTRIBUTES");
  ASSIGN_OR_RETURN(settings.attributes, ParseNameValueList(variables.name(), text));
  if (std::string name = variables.Other("OTEL_SERVICE_NAME"); !name.empty()) {
    std::erase_if(settings.attributes,
                  [](const auto& pair) { return pair.first == "service.name"; });
    settings.attributes.emplace_back("service.name", std::move(name));
  }
  // A bad URL or header is an error of the command line, not of the first push.
  RETURN_IF_ERROR(HttpPoster::Create(settings.post).status());
  return settings;
}

absl::StatusOr<NameValueList> ParseNameValueList(absl::string_view variable,
                                                 absl::string_view text) {
  NameValueList pairs;
  for (absl::string_view item : absl::StrSplit(text, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> parts =
        absl::StrSplit(item, absl::MaxSplits('=', 1));
    const auto key = std::string(absl::StripAsciiWhitespace(parts.first));
    std::string value;
    if (key.empty() || !absl::StrContains(item, '=') ||
        !PercentDecode(absl::StripAsciiWhitespace(parts.second), &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(variable, ": not of the form NAME=VALUE,NAME=VALUE"));
    }
    pairs.emplace_back(key, std::move(value));
  }
  return pairs;
}

}  // namespace rocattach
