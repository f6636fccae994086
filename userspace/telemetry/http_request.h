// Heads of HTTP requests, which come from untrusted clients.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_HTTP_REQUEST_H_
#define ROCATTACH_USERSPACE_TELEMETRY_HTTP_REQUEST_H_

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace rocattach {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // without the query
  std::string query;   // after '?'
  std::string accept;  // the header of this name; several are joined by ','
  // The requested host: from the target if that has the absolute form, else from the
  // header. Unset: the request has none, which only HTTP/1.0 permits.
  std::optional<std::string> host;
  bool keep_alive = true;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // may be shared by many; null: empty

  static HttpResponse Text(int status, std::string text) {
    return {status, "text/plain; charset=utf-8",
            std::make_shared<const std::string>(std::move(text))};
  }
};

enum class HttpParse { kMore, kDone, kBad, kTooLong };

// Longer heads are refused.
inline constexpr size_t kMostHeadBytes = 8192;

// Parses the head at the beginning of `bytes`, the data received so far. kDone:
// `request` is filled in, and its head is `used` bytes. Requests with a body are bad.
HttpParse ParseHttpRequest(absl::string_view bytes, HttpRequest* request, size_t* used);

// The head of a response: everything before the body.
std::string HttpResponseHead(const HttpResponse& response, bool keep_alive);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_HTTP_REQUEST_H_
