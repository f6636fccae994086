#include "userspace/telemetry/http_request.h"

#include <gtest/gtest.h>

#include <string>

namespace rocattach {
namespace {

HttpParse Parse(const std::string& bytes, HttpRequest* request) {
  size_t used = 0;
  return ParseHttpRequest(bytes, request, &used);
}

TEST(HttpRequestTest, ParsesARequestFromPrometheus) {
  HttpRequest request;
  const std::string head =
      "GET /metrics?a=1 HTTP/1.1\r\nHost: localhost:9410\r\n"
      "User-Agent: Prometheus/2.42.0\r\nAccept-Encoding: gzip\r\n\r\n";
  size_t used = 0;
  ASSERT_EQ(ParseHttpRequest(head + "more", &request, &used), HttpParse::kDone);
  EXPECT_EQ(used, head.size());
  EXPECT_EQ(request.method, "GET");
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.query, "a=1");
  EXPECT_TRUE(request.keep_alive);
}

TEST(HttpRequestTest, AcceptedFormatsMayBeInSeveralHeaders) {
  HttpRequest request;
  ASSERT_EQ(
      Parse("GET / HTTP/1.1\r\nHost: x\r\naccept:  a/b;q=1\r\nAccept: c/d\r\n\r\n",
            &request),
      HttpParse::kDone);
  EXPECT_EQ(request.accept, "a/b;q=1,c/d");
  ASSERT_EQ(Parse("GET / HTTP/1.1\r\nHost: x\r\n\r\n", &request), HttpParse::kDone);
  EXPECT_EQ(request.accept, "");
}

TEST(HttpRequestTest, TheConnectionHeaderIsHeeded) {
  HttpRequest request;
  ASSERT_EQ(Parse("GET / HTTP/1.1\r\nHost: x\r\nconnection: Close\r\n\r\n", &request),
            HttpParse::kDone);
  EXPECT_FALSE(request.keep_alive);
  ASSERT_EQ(Parse("GET / HTTP/1.0\r\n\r\n", &request), HttpParse::kDone);
  EXPECT_FALSE(request.keep_alive);
}

TEST(HttpRequestTest, ReadsTheHost) {
  HttpRequest request;
  ASSERT_EQ(Parse("GET / HTTP/1.1\r\nhost:  A.b:9410 \r\n\r\n", &request),
            HttpParse::kDone);
  EXPECT_EQ(request.host, "A.b:9410");
  ASSERT_EQ(Parse("GET / HTTP/1.0\r\n\r\n", &request), HttpParse::kDone);
  EXPECT_FALSE(request.host.has_value());
  ASSERT_EQ(Parse("GET / HTTP/1.1\r\nHost:\r\n\r\n", &request), HttpParse::kDone);
  EXPECT_EQ(request.host, "");
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nAccept: a/b\r\n\r\n", &request), HttpParse::kBad);
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", &request),
            HttpParse::kBad);
}

TEST(HttpRequestTest, ATargetInAbsoluteFormHasTheHost) {
  HttpRequest request;
  ASSERT_EQ(Parse("GET HTTP://a:9410/metrics?b HTTP/1.1\r\nHost: c\r\n\r\n", &request),
            HttpParse::kDone);
  EXPECT_EQ(request.host, "a:9410");
  EXPECT_EQ(request.path, "/metrics");
  EXPECT_EQ(request.query, "b");
  ASSERT_EQ(Parse("GET http://a HTTP/1.1\r\nHost: c\r\n\r\n", &request),
            HttpParse::kDone);
  EXPECT_EQ(request.path, "/");
  EXPECT_EQ(Parse("GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n", &request),
            HttpParse::kBad);
}

TEST(HttpRequestTest, EveryBeginningOfARequestIsWaitedFor) {
  const std::string head = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  HttpRequest request;
  for (size_t i = 0; i < head.size(); ++i) {
    EXPECT_EQ(Parse(head.substr(0, i), &request), HttpParse::kMore) << i;
  }
}

TEST(HttpRequestTest, GarbageIsRefusedAtOnce) {
  HttpRequest request;
  for (const std::string& text :
       {std::string("\x16\x03\x01\x02"), std::string("hello"), std::string(1, '\0'),
        std::string("GET\r\n"), std::string("GET metrics HTTP/1.1\r\n"),
        std::string("GET / HTTP/2.0\r\n"), std::string("get / HTTP/1.1\r\n"),
        std::string("GET / HTTP/1.1\r\nno colon\r\n\r\n")}) {
    EXPECT_EQ(Parse(text, &request), HttpParse::kBad) << text;
  }
}

TEST(HttpRequestTest, ABodyIsRefused) {
  HttpRequest request;
  EXPECT_EQ(Parse("POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc", &request),
            HttpParse::kBad);
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", &request),
            HttpParse::kBad);
  EXPECT_EQ(Parse("GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", &request),
            HttpParse::kDone);
}

TEST(HttpRequestTest, AnEndlessHeadIsRefused) {
  HttpRequest request;
  const std::string head = "GET / HTTP/1.1\r\nX: ";
  EXPECT_EQ(Parse(head + std::string(1000, 'x'), &request), HttpParse::kMore);
  EXPECT_EQ(Parse(head + std::string(kMostHeadBytes, 'x'), &request),
            HttpParse::kTooLong);
}

}  // namespace
}  // namespace rocattach
