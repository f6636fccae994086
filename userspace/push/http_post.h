// POST requests to one URL.
#ifndef ROCATTACH_USERSPACE_PUSH_HTTP_POST_H_
#define ROCATTACH_USERSPACE_PUSH_HTTP_POST_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/wake_event.h"

namespace rocattach {

struct HttpPostOptions {
  std::string url;                                     // http or https
  std::vector<std::string> headers;                    // "Name: value"; also Content-*
  std::string agent = "OTel-OTLP-Exporter-rocattach";  // User-Agent, without version
  // Files for TLS; empty: the system's CA certificates, and no client certificate.
  std::string ca_file, certificate_file, key_file;
};

struct HttpPostReply {
  long status = 0;
  std::optional<uint64_t> retry_after_seconds;
  std::string body;  // at most kMostReplyBytes; longer ones are truncated
  // The header grpc-status, from servers that speak gRPC-Web.
  std::optional<int> grpc_status;
};

// Sends requests, and keeps the connection for the next one. Redirects are not
// followed: a body may name users and programs. Not thread-safe.
class HttpPoster {
 public:
  static constexpr size_t kMostReplyBytes = 64 << 10;
  // A request under way when `stop` is signalled has this long to get its answer.
  static constexpr uint64_t kStopMsec = 3000;

  // INVALID_ARGUMENT if the URL or a header is not valid.
  static absl::StatusOr<std::unique_ptr<HttpPoster>> Create(HttpPostOptions options);
  virtual ~HttpPoster() = default;

  // UNAVAILABLE if there was no answer, DEADLINE_EXCEEDED if none came in time,
  // CANCELLED if `stop`, which may be null, was signalled meanwhile and none came within
  // kStopMsec: then it is not known whether the server has taken the body.
  virtual absl::StatusOr<HttpPostReply> Post(absl::string_view body,
                                             uint64_t timeout_msec,
                                             const WakeEvent* stop) = 0;
  // Replaces the URL's query from the next request on; it is already encoded.
  virtual void SetQuery(const std::string& query) = 0;
};

// The URL without user name, password and query, which must not appear in logs. The
// text itself if it is not a URL.
std::string PublicUrl(const std::string& url);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_HTTP_POST_H_
