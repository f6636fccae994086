#include "userspace/telemetry/protobuf_page.h"

#include <gtest/gtest.h>

#include <string>

namespace rocattach {
namespace {

const std::string kProtobuf =
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;"
    "encoding=delimited";

TEST(AcceptedFormat, RecognisesPrometheusHeaders) {
  // Headers of a server with native histograms, and of one without.
  EXPECT_TRUE(PrefersPrometheusProtobuf(
      kProtobuf +
      ",application/openmetrics-text;version=1.0.0;q=0.8,"
      "application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;"
      "q=0.5,*/*;q=0.1"));
  EXPECT_TRUE(PrefersPrometheusProtobuf(
      kProtobuf + ";q=0.6,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.5"));
  EXPECT_FALSE(PrefersPrometheusProtobuf(
      "application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
      "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"));
  EXPECT_FALSE(PrefersPrometheusProtobuf("text/plain;version=0.0.4;q=0.6," + kProtobuf +
                                         ";q=0.5,*/*;q=0.1"));
}

TEST(AcceptedFormat, TextIsTheDefault) {
  for (const std::string& accept : {
           std::string(),
           std::string("*/*"),
           std::string("text/html,*/*;q=0.8"),
           std::string(";;,,="),
           std::string("application/vnd.google.protobuf"),
           "*/*," + kProtobuf,
           "text/plain," + kProtobuf,
           kProtobuf + ";q=0",
           kProtobuf + ";q=many",
           kProtobuf + ";q=7",
           kProtobuf + ";q=nan",
           std::string("application/vnd.google.protobuf;proto=io.prometheus.client."
                       "MetricFamily;encoding=text"),
           std::string(
               "application/vnd.google.protobuf;proto=other;encoding=delimited"),
       }) {
    EXPECT_FALSE(PrefersPrometheusProtobuf(accept)) << accept;
  }
}

TEST(AcceptedFormat, SpacesQuotesAndCaseDoNotMatter) {
  EXPECT_TRUE(PrefersPrometheusProtobuf(
      "text/plain ; Q=0.3 ,\tApplication/VND.google.protobuf ; "
      "Proto=\"io.prometheus.client.MetricFamily\" ; encoding = delimited ; q = 0.7 "));
}

}  // namespace
}  // namespace rocattach
