#include "userspace/telemetry/http_server.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/unit/telemetry/http_client.h"

namespace rocattach {
namespace {

using testing_support::Get;
using testing_support::HttpClient;

class HttpServerTest : public testing::Test {
 protected:
  void Start(HttpLimits limits = {}, size_t body_bytes = 3) {
    body_ = std::make_shared<const std::string>(body_bytes, 'x');
    auto server = HttpServer::Start(
        *ParseListenAddress("127.0.0.1:0"),
        [this](const HttpRequest& request) {
          HttpResponse response;
          if (request.path != "/") response.status = 404;
          response.body = body_;
          return response;
        },
        &counts_, limits);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  const ListenAddress& address() const { return server_->address(); }
  bool Works() const { return Get(address(), "/").find("200 OK") == 9; }

  HttpCounts counts_;
  std::shared_ptr<const std::string> body_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, Answers) {
  Start();
  const std::string answer = Get(address(), "/");
  EXPECT_EQ(answer.substr(0, 17), "HTTP/1.1 200 OK\r\n");
  EXPECT_EQ(answer.substr(answer.size() - 7), "\r\n\r\nxxx");
  EXPECT_NE(Get(address(), "/other").find("404"), std::string::npos);
  EXPECT_EQ(counts_.requests, 2u);
}

TEST_F(HttpServerTest, AConnectionServesManyRequests) {
  Start();
  HttpClient client(address());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(client.Send("GET / HTTP/1.1\r\n"));
    ASSERT_TRUE(client.Send("Host: x\r\n\r\n"));
    EXPECT_NE(client.Receive().find("xxx"), std::string::npos);
  }
}

TEST_F(HttpServerTest, HeadHasNoBodyAndOtherMethodsAreRefused) {
  Start();
  HttpClient head(address());
  head.Send("HEAD / HTTP/1.0\r\n\r\n");
  const std::string answer = head.ReceiveHead();
  EXPECT_NE(answer.find("Content-Length: 3"), std::string::npos);
  EXPECT_EQ(answer.substr(answer.size() - 4), "\r\n\r\n");
  HttpClient post(address());
  post.Send("DELETE / HTTP/1.1\r\nHost: x\r\n\r\n");
  EXPECT_NE(post.Receive().find("405"), std::string::npos);
}

TEST_F(HttpServerTest, APortInUseIsAnErrorThatNamesIt) {
  Start();
  const auto second = HttpServer::Start(address(), nullptr, &counts_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find(address().text()), std::string::npos);
}

TEST_F(HttpServerTest, AThousandConnectionsDoNotBlockOtherClients) {
  Start();
  std::vector<std::unique_ptr<HttpClient>> idle;
  for (int i = 0; i < 1000; ++i) {
    idle.push_back(std::make_unique<HttpClient>(address()));
    if (i % 3 == 0) idle.back()->Send("GET / HT");
    if (i % 100 == 0) {
      EXPECT_TRUE(Works()) << i;
    }
  }
  EXPECT_TRUE(Works());
  EXPECT_GE(counts_.refused, 1000u - 64u - 1u);
}

TEST_F(HttpServerTest, ClientsThatNeverReadAreClosedInTime) {
  HttpLimits limits;
  limits.answer_ns = 200'000'000;
  Start(limits, 16 << 20);
  std::vector<std::unique_ptr<HttpClient>> deaf;
  for (int i = 0; i < 8; ++i) {
    deaf.push_back(std::make_unique<HttpClient>(address()));
    deaf.back()->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_TRUE(Works());
  absl::SleepFor(absl::Milliseconds(600));
  for (const auto& client : deaf) {
    // Only what the kernel had buffered can still be read.
    EXPECT_LT(client->Receive().size(), size_t{16} << 20);
  }
}

TEST_F(HttpServerTest, UnreadAnswersAreBounded) {
  HttpLimits limits;
  limits.pending_bytes = 20 << 20;
  Start(limits, 16 << 20);
  std::vector<std::unique_ptr<HttpClient>> deaf;
  for (int i = 0; i < 4; ++i) {
    deaf.push_back(std::make_unique<HttpClient>(address()));
    deaf.back()->Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  EXPECT_TRUE(Works());
  EXPECT_GE(counts_.refused, 3u);
}

TEST_F(HttpServerTest, ARequestThatNeverEndsIsClosedInTime) {
  HttpLimits limits;
  limits.request_ns = 100'000'000;
  limits.idle_ns = 300'000'000;
  Start(limits);
  HttpClient partial(address()), idle(address());
  partial.Send("GET / HTTP/1.1\r\nX:");
  EXPECT_TRUE(partial.IsClosed());
  EXPECT_TRUE(idle.IsClosed());
  EXPECT_TRUE(Works());
}

TEST_F(HttpServerTest, GarbageIsAnsweredAndClosed) {
  Start();
  HttpClient tls(address());
  tls.Send(std::string("\x16\x03\x01\x00\xa5", 5));
  EXPECT_NE(tls.Receive().find("400"), std::string::npos);
  EXPECT_TRUE(tls.IsClosed());
  std::mt19937 random(1);
  for (int i = 0; i < 200; ++i) {
    HttpClient client(address());
    std::string bytes(1 + random() % 3000, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    client.Send(bytes);
  }
  EXPECT_TRUE(Works());
}

}  // namespace
}  // namespace rocattach
