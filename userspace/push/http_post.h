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
  std::string url;                   // http or https
  std::vector<std::string> headers;  // "Name: value"; libcurl's Content-* included
  std::string agent = "OTel-OTLP-Exporter-rocattach";  // User-Agent, without version
  // Files for TLS; empty: the system's certificates, and none of ours.
  std::string ca_file, certificate_file, key_file;
};

struct HttpPostReply {
  long status = 0;
  std::optional<uint64_t> retry_after_seconds;
  std::string body;  // at most kMostReplyBytes; longer ones are cut
  // The header grpc-status, of servers that speak gRPC-Web.
  std::optional<int> grpc_status;
};

// The connection is kept for the next request. Redirects are not followed: what is sent
// may name users and programs. Not thread-safe.
class HttpPoster {
 public:
  static constexpr size_t kMostReplyBytes = 64 << 10;

  // INVALID_ARGUMENT if the URL or a header cannot be one.
  static absl::StatusOr<std::unique_ptr<HttpPoster>> Create(HttpPostOptions options);
  virtual ~HttpPoster() = default;

  // UNAVAILABLE if there was no answer, DEADLINE_EXCEEDED if not in time, CANCELLED if
  // `stop` was signalled meanwhile, which may be null.
  virtual absl::StatusOr<HttpPostReply> Post(absl::string_view body,
                                             uint64_t timeout_msec,
                                             const WakeEvent* stop) = 0;
  // Replaces what is behind the URL's '?' from the next request on; already encoded.
  virtual void SetQuery(const std::string& query) = 0;
};

// The URL without user name and password, which do not belong into logs. The text
// itself if it is no URL.
std::string PublicUrl(const std::string& url);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_HTTP_POST_H_
