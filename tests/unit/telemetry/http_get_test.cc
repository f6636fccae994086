#include "userspace/telemetry/http_get.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/telemetry/http_server.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

std::string Message(const absl::StatusOr<std::string>& page) {
  return std::string(page.status().message());
}

TEST(HttpGetTest, ReadsAPage) {
  HttpCounts counts;
  auto server = HttpServer::Start(*ParseListenAddress("127.0.0.1:0"),
                                  [](const HttpRequest& request) {
                                    HttpResponse response;
                                    if (request.path != "/page") response.status = 404;
                                    response.body = std::make_shared<const std::string>(
                                        100'000, 'x');
                                    return response;
                                  },
                                  &counts, {});
  ASSERT_TRUE(server.ok()) << server.status();
  // Nothing listens there.
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const auto page = HttpGet((*server)->address(), "/page");
  ASSERT_TRUE(page.ok()) << page.status();
  EXPECT_EQ(*page, std::string(100'000, 'x'));
  const auto other = HttpGet((*server)->address(), "/other");
  EXPECT_EQ(other.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(Message(other), HasSubstr("answered: xxx"));
}

// A server for one connection, which it answers with `text`, whatever it is asked.
class OneAnswer {
 public:
  explicit OneAnswer(std::string text)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
        address_(*ParseListenAddress("127.0.0.1:0")) {
    (void)bind(fd_.get(), reinterpret_cast<sockaddr*>(&address_.address),
               address_.size);
    (void)getsockname(fd_.get(), reinterpret_cast<sockaddr*>(&address_.address),
                      &address_.size);
    (void)listen(fd_.get(), 1);
    thread_ = std::thread([this, text = std::move(text)] {
      const UniqueFd client(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      char request[4096];
      if (read(client.get(), request, sizeof(request)) <= 0) return;
      (void)!write(client.get(), text.data(), text.size());
    });
  }
  ~OneAnswer() { thread_.join(); }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  const ListenAddress& address() const { return address_; }

 private:
  const UniqueFd fd_;
  ListenAddress address_;
  std::thread thread_;
};

TEST(HttpGetTest, AnswersOfOthersAreErrors) {
  for (const char* text : {"", "SSH-2.0-OpenSSH_9.2\r\n",
                           "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nx"}) {
    const OneAnswer server(text);
    const auto page = HttpGet(server.address(), "/");
    EXPECT_EQ(page.status().code(), absl::StatusCode::kUnavailable) << text;
    EXPECT_THAT(Message(page), HasSubstr(server.address().text())) << text;
    EXPECT_THAT(Message(page), HasSubstr("did not answer as rocattach-watch")) << text;
  }
}

TEST(HttpGetTest, ErrorNamesTheUnreachableAddress) {
  const auto page = HttpGet(*ParseListenAddress("127.0.0.1:1"), "/");
  ASSERT_FALSE(page.ok());
  EXPECT_THAT(Message(page), HasSubstr("cannot reach 127.0.0.1:1"));
  EXPECT_THAT(Message(page), HasSubstr("Connection refused"));
}

}  // namespace
}  // namespace rocattach
