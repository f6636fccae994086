// A small HTTP server for read-only pages, safe against its clients.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_HTTP_SERVER_H_
#define ROCATTACH_USERSPACE_TELEMETRY_HTTP_SERVER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"
#include "userspace/base/wake_event.h"
#include "userspace/telemetry/http_request.h"
#include "userspace/telemetry/listen_address.h"

namespace rocattach {

struct HttpLimits {
  size_t connections = 64;
  // Time limits for a request to arrive, counted from its first byte, and for an answer
  // to be read.
  uint64_t request_ns = 5'000'000'000, answer_ns = 10'000'000'000;
  // Time limit for a connection without a request.
  uint64_t idle_ns = 60'000'000'000;
  // Limit on the bytes of answers that have not been read yet.
  size_t pending_bytes = 32 << 20;
};

struct HttpCounts {
  std::atomic<uint64_t> requests = 0;
  std::atomic<uint64_t> refused = 0;  // connections that were closed to make room
};

// Uses one thread, and no more connections than the limit: if there is no room for a
// new one, the connection that has been useless for the longest time is closed. So a
// client that opens a thousand connections, never reads, or never completes a request
// cannot keep others out.
class HttpServer {
 public:
  // Answers GET and HEAD; called on the server's thread.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Fails if the server cannot listen at `address`. `counts` must outlive it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const ListenAddress& address,
                                                           Handler handler,
                                                           HttpCounts* counts,
                                                           HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port is the actual one, even if port 0 was requested.
  const ListenAddress& address() const { return address_; }

 private:
  struct Connection;
  using Connections = std::list<Connection>;

  HttpServer(UniqueFd fd, ListenAddress address, Handler handler, HttpCounts* counts,
             HttpLimits limits);
  void Run();
  // One round of waiting and serving.
  void Serve();
  void Accept();
  // These return false if the connection is to be closed.
  bool Read(Connection* connection);
  bool Answer(Connection* connection);
  bool Write(Connection* connection);
  bool InTime(const Connection& connection, uint64_t now_ns) const;
  // Closes the least useful connections until the limits are met.
  void MakeRoom();
  bool TooMuchIsPending() const;

  const UniqueFd fd_;
  const ListenAddress address_;
  const Handler handler_;
  HttpCounts* const counts_;
  const HttpLimits limits_;
  WakeEvent stop_;
  Connections connections_;  // oldest first
  uint64_t accept_after_ns_ = 0;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_HTTP_SERVER_H_
