#include "userspace/telemetry/http_request.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rocattach {
namespace {

// The beginning of a request target in absolute form.
constexpr absl::string_view kScheme = "http://";

// "GET /metrics?x HTTP/1.1", "GET http://host:9410/metrics HTTP/1.1".
bool ParseRequestLine(absl::string_view line, HttpRequest* request) {
  const std::vector<absl::string_view> parts = absl::StrSplit(line, ' ');
  if (parts.size() != 3 || parts[0].empty()) return false;
  absl::string_view target = parts[1];
  if (absl::StartsWithIgnoreCase(target, kScheme)) {
    target.remove_prefix(kScheme.size());
    const size_t end = std::min(target.find_first_of("/?"), target.size());
    request->host = std::string(target.substr(0, end));
    target.remove_prefix(end);
    if (target.empty()) target = "/";
  }
  if (!absl::StartsWith(target, "/")) return false;
  if (parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0") return false;
  const bool upper = std::all_of(parts[0].begin(), parts[0].end(),
                                 [](char c) { return c >= 'A' && c <= 'Z'; });
  if (!upper) return false;
  request->method = std::string(parts[0]);
  const std::pair<absl::string_view, absl::string_view> path =
      absl::StrSplit(target, absl::MaxSplits('?', 1));
  request->path = std::string(path.first);
  request->query = std::string(path.second);
  request->keep_alive = parts[2] == "HTTP/1.1";
  return true;
}

bool ParseHeader(absl::string_view line, HttpRequest* request) {
  const size_t colon = line.find(':');
  if (colon == absl::string_view::npos || colon == 0) return false;
  const absl::string_view name = line.substr(0, colon);
  const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
  if (absl::EqualsIgnoreCase(name, "Connection")) {
    if (absl::EqualsIgnoreCase(value, "close")) request->keep_alive = false;
    if (absl::EqualsIgnoreCase(value, "keep-alive")) request->keep_alive = true;
  }
  if (absl::EqualsIgnoreCase(name, "Host")) {
    if (request->host.has_value()) return false;
    request->host = std::string(value);
  }
  if (absl::EqualsIgnoreCase(name, "Accept")) {
    absl::StrAppend(&request->accept, request->accept.empty() ? "" : ",", value);
  }
  if (absl::EqualsIgnoreCase(name, "Transfer-Encoding")) return false;
  return !absl::EqualsIgnoreCase(name, "Content-Length") || value == "0";
}

const char* StatusText(int status) {
  switch (status) {
    case 200:
      return "OK";
    case 400:
      return "Bad Request";
    case 404:
      return "Not Found";
    case 405:
      return "Method Not Allowed";
    case 421:
      return "Misdirected Request";
    case 431:
      return "Request Header Fields Too Large";
    default:
      return "Service Unavailable";
  }
}

}  // namespace

HttpParse ParseHttpRequest(absl::string_view bytes, HttpRequest* request,
                           size_t* used) {
  const size_t end = bytes.substr(0, kMostHeadBytes).find("\r\n\r\n");
  if (end == absl::string_view::npos) {
    // Do not wait for the rest of data that does not look like a request.
    const size_t line_end = bytes.find("\r\n");
    HttpRequest ignored;
    if (line_end != absl::string_view::npos &&
        !ParseRequestLine(bytes.substr(0, line_end), &ignored)) {
      return HttpParse::kBad;
    }
    if (!bytes.empty() && (bytes[0] < 'A' || bytes[0] > 'Z')) return HttpParse::kBad;
    return bytes.size() >= kMostHeadBytes ? HttpParse::kTooLong : HttpParse::kMore;
  }
  const std::vector<absl::string_view> lines =
      absl::StrSplit(bytes.substr(0, end), "\r\n");
  *request = HttpRequest();
  if (!ParseRequestLine(lines[0], request)) return HttpParse::kBad;
  const std::optional<std::string> of_target = request->host;
  request->host.reset();
  for (size_t i = 1; i < lines.size(); ++i) {
    if (!ParseHeader(lines[i], request)) return HttpParse::kBad;
  }
  if (!request->host.has_value() && absl::EndsWith(lines[0], "/1.1")) {
    return HttpParse::kBad;
  }
  if (of_target.has_value()) request->host = of_target;
  *used = end + 4;
  return HttpParse::kDone;
}

std::string HttpResponseHead(const HttpResponse& response, bool keep_alive) {
  return absl::StrCat(
      "HTTP/1.1 ", response.status, " ", StatusText(response.status),
      "\r\nContent-Type: ", response.content_type,
      "\r\nContent-Length: ", response.body == nullptr ? 0 : response.body->size(),
      "\r\nCache-Control: no-store", "\r\nX-Content-Type-Options: nosniff",
      response.status == 405 ? "\r\nAllow: GET, HEAD" : "",
      "\r\nConnection: ", keep_alive ? "keep-alive" : "close", "\r\n\r\n");
}

}  // namespace rocattach
