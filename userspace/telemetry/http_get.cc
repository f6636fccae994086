#include "userspace/telemetry/http_get.h"

#include <curl/curl.h>
#include <errno.h>

#include <cstddef>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

constexpr long kPatienceSeconds = 5;
// A longer answer is not one of ours.
constexpr size_t kMostBytes = 256 << 20;

size_t Append(char* bytes, size_t size, size_t count, void* opaque) {
  auto* body = static_cast<std::string*>(opaque);
  if (size * count > kMostBytes - body->size()) return 0;  // ends the transfer
  body->append(bytes, size * count);
  return size * count;
}

absl::Status Failed(const ListenAddress& server, CURL* curl, CURLcode code) {
  long error = 0;
  curl_easy_getinfo(curl, CURLINFO_OS_ERRNO, &error);
  switch (code) {
    case CURLE_OPERATION_TIMEDOUT:
      return absl::DeadlineExceededError(
          absl::StrCat(server.text(), " did not answer within five seconds"));
    case CURLE_COULDNT_CONNECT:
      return ErrnoStatus(error == 0 ? ECONNREFUSED : static_cast<int>(error),
                         absl::StrCat("cannot reach ", server.text()));
    default:
      return absl::UnavailableError(absl::StrCat(
          server.text(),
          " did not answer as rocattach-watch does: ", curl_easy_strerror(code)));
  }
}

}  // namespace

absl::StatusOr<std::string> HttpGet(const ListenAddress& server,
                                    const std::string& path) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> curl(curl_easy_init(),
                                                                 &curl_easy_cleanup);
  if (curl == nullptr) return absl::ResourceExhaustedError("libcurl: no memory");
  const std::string url = absl::StrCat("http://", server.text(), path);
  std::string body;
  curl_easy_setopt(curl.get(), CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl.get(), CURLOPT_NOSIGNAL, 1L);
  // The service is on this machine, whatever http_proxy says.
  curl_easy_setopt(curl.get(), CURLOPT_PROXY, "");
  curl_easy_setopt(curl.get(), CURLOPT_CONNECTTIMEOUT, kPatienceSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_LIMIT, 1L);  // bytes a second
  curl_easy_setopt(curl.get(), CURLOPT_LOW_SPEED_TIME, kPatienceSeconds);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEFUNCTION, &Append);
  curl_easy_setopt(curl.get(), CURLOPT_WRITEDATA, &body);
  const CURLcode code = curl_easy_perform(curl.get());
  if (code != CURLE_OK) return Failed(server, curl.get(), code);
  long status = 0;
  curl_easy_getinfo(curl.get(), CURLINFO_RESPONSE_CODE, &status);
  if (status == 200) return body;
  return absl::UnavailableError(
      absl::StrCat(server.text(), " answered: ", absl::StripAsciiWhitespace(body)));
}

}  // namespace rocattach
