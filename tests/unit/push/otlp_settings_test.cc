#include "userspace/push/otlp_settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace rocattach {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;
using testing::Pair;

absl::StatusOr<OtlpSettings> Make(const std::string& endpoint,
                                  const std::map<std::string, std::string>& variables,
                                  uint64_t interval_msec = 0) {
  return MakeOtlpSettings(endpoint, interval_msec, [&](const char* name) {
    const auto found = variables.find(name);
    return found == variables.end() ? "" : found->second;
  });
}

TEST(OtlpSettings, DefaultsAreThoseOfTheSpecification) {
  const auto settings = Make("http://collector:4318", {});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_EQ(settings->post.url, "http://collector:4318/v1/metrics");
  EXPECT_EQ(settings->timeout_msec, 10'000u);
  EXPECT_EQ(settings->interval_msec, 60'000u);
  EXPECT_THAT(settings->post.headers, Contains("Content-Type: application/x-protobuf"));
  EXPECT_THAT(settings->post.headers, Contains("Content-Encoding: gzip"));
}

TEST(OtlpSettings, ThePathIsAddedOnce) {
  EXPECT_EQ(Make("http://c/otlp/", {})->post.url, "http://c/otlp/v1/metrics");
  EXPECT_EQ(Make("https://c/v1/metrics", {})->post.url, "https://c/v1/metrics");
}

TEST(OtlpSettings, VariablesAreHonoured) {
  const auto settings = Make(
      "http://c",
      {{"OTEL_EXPORTER_OTLP_HEADERS", "authorization=Bearer%20abc%3D, x-tenant = gpu "},
       {"OTEL_EXPORTER_OTLP_TIMEOUT", "2500"},
       {"OTEL_EXPORTER_OTLP_METRICS_TIMEOUT", "1500"},
       {"OTEL_EXPORTER_OTLP_COMPRESSION", "none"},
       {"OTEL_EXPORTER_OTLP_CERTIFICATE", "/etc/ca.pem"},
       {"OTEL_METRIC_EXPORT_INTERVAL", "5000"},
       {"OTEL_SERVICE_NAME", "gpus"},
       {"OTEL_RESOURCE_ATTRIBUTES",
        "service.name=other,deployment.environment=lab%2C1"}});
  ASSERT_TRUE(settings.ok()) << settings.status();
  EXPECT_THAT(settings->post.headers, Contains("authorization: Bearer abc="));
  EXPECT_THAT(settings->post.headers, Contains("x-tenant: gpu"));
  EXPECT_THAT(settings->post.headers, Not(Contains(HasSubstr("gzip"))));
  EXPECT_EQ(settings->timeout_msec, 1500u);
  EXPECT_EQ(settings->interval_msec, 5000u);
  EXPECT_EQ(settings->post.ca_file, "/etc/ca.pem");
  EXPECT_THAT(settings->attributes, Contains(Pair("service.name", "gpus")));
  EXPECT_THAT(settings->attributes, Not(Contains(Pair("service.name", "other"))));
  EXPECT_THAT(settings->attributes, Contains(Pair("deployment.environment", "lab,1")));
  EXPECT_EQ(
      Make("http://c", {{"OTEL_METRIC_EXPORT_INTERVAL", "5000"}}, 700)->interval_msec,
      700u);
}

TEST(OtlpSettings, ErrorsNameTheBadSetting) {
  struct Case {
    const char* endpoint;
    std::map<std::string, std::string> variables;
    const char* message;
  };
  const Case cases[] = {
      {"collector:4318", {}, "is not a URL of http or https"},
      {"ftp://c", {}, "is not a URL"},
      {"file:///etc/passwd", {}, "is not a URL"},
      {"", {}, "is not a URL"},
      {"http://c", {{"OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"}}, "only http/protobuf"},
      {"http://c", {{"OTEL_EXPORTER_OTLP_COMPRESSION", "zstd"}}, "neither gzip"},
      {"http://c", {{"OTEL_EXPORTER_OTLP_TIMEOUT", "soon"}}, "_TIMEOUT=soon"},
      {"http://c", {{"OTEL_METRIC_EXPORT_INTERVAL", "0"}}, "_INTERVAL=0"},
      {"http://c", {{"OTEL_RESOURCE_ATTRIBUTES", "novalue"}}, "not of the form"},
      {"http://c", {{"OTEL_RESOURCE_ATTRIBUTES", "a=%zz"}}, "not of the form"},
      {"http://c",
       {{"OTEL_EXPORTER_OTLP_HEADERS", "a=x%0d%0aHost: evil"}},
       "line break"},
  };
  for (const Case& c : cases) {
    const auto settings = Make(c.endpoint, c.variables);
    ASSERT_FALSE(settings.ok()) << c.message;
    EXPECT_EQ(settings.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(settings.status().message()), HasSubstr(c.message));
  }
}

// Both are secrets.
TEST(OtlpSettings, HeadersAndPasswordsAreNotRepeatedInErrors) {
  const auto headers = Make("http://c", {{"OTEL_EXPORTER_OTLP_HEADERS", "secret"}});
  EXPECT_THAT(std::string(headers.status().message()), Not(HasSubstr("secret")));
  EXPECT_EQ(PublicUrl("https://user:secret@c/v1?key=secret"), "https://c/v1");
}

}  // namespace
}  // namespace rocattach
