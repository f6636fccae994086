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
  // Until a request has arrived, counted from its first byte; and until an answer has
  // been read.
  uint64_t request_ns = 5'000'000'000, answer_ns = 10'000'000'000;
  // Without a request.
  uint64_t idle_ns = 60'000'000'000;
  // Of answers that have not been read yet.
  size_t pending_bytes = 32 << 20;
};

struct HttpCounts {
  std::atomic<uint64_t> requests = 0;
  std::atomic<uint64_t> refused = 0;  // connections that were closed to make room
};

// One thread, and no more connections than the limit: where there is no room, the one
// that has been of no use for the longest time is closed for the next. So a client that
// opens a thousand connections, never reads, or never completes a request keeps nobody
// out.
class HttpServer {
 public:
  // Answers GET and HEAD; called on the server's thread.
  using Handler = std::function<HttpResponse(const HttpRequest&)>;

  // Fails if it cannot listen there. `counts` must outlive it.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const ListenAddress& address,
                                                           Handler handler,
                                                           HttpCounts* counts,
                                                           HttpLimits limits = {});
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // The port is the real one, also where 0 was asked for.
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
  // Closes the least useful connections, beyond the limits.
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
