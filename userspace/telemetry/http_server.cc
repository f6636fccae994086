#include "userspace/telemetry/http_server.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Connections that the kernel keeps until they are accepted.
constexpr int kBacklog = 128;
// Connections accepted in one round; the rest waits for the next.
constexpr int kMostAccepts = 64;
// Maximum delay in noticing that a time limit has passed.
constexpr int kTickMsec = 100;
// Pause after an accept that failed for lack of descriptors.
constexpr uint64_t kAcceptPauseNs = 100'000'000;
constexpr size_t kReadBytes = 4096;

uint64_t NowNs() {
  return ClockNs(CLOCK_MONOTONIC);
}

}  // namespace

struct HttpServer::Connection {
  UniqueFd fd;
  uint64_t since_ns = 0;  // start of its present state
  std::string received;
  // The answer, head and body.
  std::string head;
  std::shared_ptr<const std::string> body;
  size_t sent = 0;
  bool answering = false, keep_alive = false;

  size_t pending() const {
    if (!answering) return 0;
    return head.size() + (body == nullptr ? 0 : body->size()) - sent;
  }
};

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(
    const ListenAddress& address, Handler handler, HttpCounts* counts,
    HttpLimits limits) {
  const auto failed = [&](const char* call) {
    return ErrnoStatus(errno, absl::StrCat("cannot listen at ", address.text(), ": ",
                                           call, "() failed; choose another address"));
  };
  UniqueFd fd(
      socket(address.address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return failed("socket");
  const int on = 1;
  (void)setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (bind(fd.get(), reinterpret_cast<const sockaddr*>(&address.address),
           address.size) != 0) {
    return failed("bind");
  }
  if (listen(fd.get(), kBacklog) != 0) return failed("listen");
  ListenAddress real = address;
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&real.address), &real.size) !=
      0) {
    return failed("getsockname");
  }
  auto server = std::unique_ptr<HttpServer>(
      new HttpServer(std::move(fd), real, std::move(handler), counts, limits));
  RETURN_IF_ERROR(server->stop_.status());
  server->thread_ = std::thread([raw = server.get()] { raw->Run(); });
  return server;
}

HttpServer::HttpServer(UniqueFd fd, ListenAddress address, Handler handler,
                       HttpCounts* counts, HttpLimits limits)
    : fd_(std::move(fd)),
      address_(address),
      handler_(std::move(handler)),
      counts_(counts),
      limits_(limits) {}

HttpServer::~HttpServer() {
  if (!thread_.joinable()) return;
  stop_.Signal();
  thread_.join();
}

void HttpServer::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-metrics");
  while (!stop_.WaitFor(0)) Serve();
  connections_.clear();
}

void HttpServer::Serve() {
  const uint64_t before_ns = NowNs();
  std::vector<pollfd> fds;
  fds.push_back({stop_.fd(), POLLIN, 0});
  const bool accepts = before_ns >= accept_after_ns_;
  fds.push_back({accepts ? fd_.get() : -1, POLLIN, 0});
  for (const Connection& connection : connections_) {
    const short events = connection.answering ? POLLOUT : POLLIN;
    fds.push_back({connection.fd.get(), events, 0});
  }
  const int timeout = accepts && connections_.empty() ? -1 : kTickMsec;
  if (poll(fds.data(), fds.size(), timeout) < 0 && errno != EINTR) return;
  const uint64_t now_ns = NowNs();
  size_t i = 2;
  for (auto connection = connections_.begin(); connection != connections_.end();) {
    bool open = true;
    if (fds[i++].revents != 0) {
      open = connection->answering ? Write(&*connection) : Read(&*connection);
    }
    open = open && InTime(*connection, now_ns);
    connection = open ? std::next(connection) : connections_.erase(connection);
  }
  if (fds[1].revents != 0) Accept();
  MakeRoom();
}

void HttpServer::Accept() {
  for (int i = 0; i < kMostAccepts; ++i) {
    UniqueFd fd(accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.valid()) {
      if (errno != EAGAIN && errno != ECONNABORTED && errno != EINTR) {
        accept_after_ns_ = NowNs() + kAcceptPauseNs;
      }
      return;
    }
    Connection& connection = connections_.emplace_back();
    connection.fd = std::move(fd);
    connection.since_ns = NowNs();
    // The request has often arrived already.
    if (!Read(&connection)) connections_.pop_back();
    MakeRoom();
  }
}

bool HttpServer::Read(Connection* connection) {
  char bytes[kReadBytes];
  const ssize_t count = recv(connection->fd.get(), bytes, sizeof(bytes), 0);
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) return false;
  if (connection->received.empty()) connection->since_ns = NowNs();
  connection->received.append(bytes, static_cast<size_t>(count));
  return Answer(connection);
}

bool HttpServer::Answer(Connection* connection) {
  HttpRequest request;
  size_t used = 0;
  HttpResponse response;
  switch (ParseHttpRequest(connection->received, &request, &used)) {
    case HttpParse::kMore:
      return true;
    case HttpParse::kBad:
      response = HttpResponse::Text(
          400, "This is not an HTTP request without a body, or it has not one host.\n");
      request.keep_alive = false;
      break;
    case HttpParse::kTooLong:
      response = HttpResponse::Text(431, "The request is too long.\n");
      request.keep_alive = false;
      break;
    case HttpParse::kDone:
      if (request.method == "GET" || request.method == "HEAD") {
        response = handler_(request);
      } else {
        response = HttpResponse::Text(405, "Only GET and HEAD are answered.\n");
      }
      break;
  }
  counts_->requests.fetch_add(1, std::memory_order_relaxed);
  // Requests that are sent before the answer has been read are not served.
  if (used < connection->received.size()) request.keep_alive = false;
  connection->received.clear();
  connection->keep_alive = request.keep_alive;
  connection->head = HttpResponseHead(response, request.keep_alive);
  connection->body = request.method == "HEAD" ? nullptr : std::move(response.body);
  connection->sent = 0;
  connection->answering = true;
  connection->since_ns = NowNs();
  return Write(connection);
}

bool HttpServer::Write(Connection* connection) {
  while (connection->pending() > 0) {
    const bool in_head = connection->sent < connection->head.size();
    absl::string_view rest = connection->head;
    size_t offset = connection->sent;
    if (!in_head) {
      offset -= connection->head.size();
      rest = *connection->body;
    }
    rest.remove_prefix(offset);
    const ssize_t count =
        send(connection->fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    connection->sent += static_cast<size_t>(count);
  }
  connection->answering = false;
  connection->body.reset();
  connection->since_ns = NowNs();
  return connection->keep_alive;
}

bool HttpServer::InTime(const Connection& connection, uint64_t now_ns) const {
  const uint64_t limit = connection.answering          ? limits_.answer_ns
                         : connection.received.empty() ? limits_.idle_ns
                                                       : limits_.request_ns;
  return now_ns < connection.since_ns + limit;
}

bool HttpServer::TooMuchIsPending() const {
  size_t bytes = 0, answers = 0;
  for (const Connection& connection : connections_) {
    bytes += connection.pending();
    answers += connection.answering ? 1 : 0;
  }
  // A single answer may have any length.
  return answers > 1 && bytes > limits_.pending_bytes;
}

void HttpServer::MakeRoom() {
  while (connections_.size() > limits_.connections || TooMuchIsPending()) {
    const bool by_bytes = connections_.size() <= limits_.connections;
    // A connection that is being answered is more useful than one that waits, unless
    // bytes must be freed; among equals, the one that changed its state last.
    const auto least =
        std::min_element(connections_.begin(), connections_.end(),
                         [by_bytes](const Connection& a, const Connection& b) {
                           if (a.answering != b.answering)
                             return a.answering == by_bytes;
                           return a.since_ns < b.since_ns;
                         });
    connections_.erase(least);
    counts_->refused.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace rocattach
