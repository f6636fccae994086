#include "userspace/push/http_post.h"

#include <curl/curl.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/version.h"

namespace rocattach {
namespace {

// libcurl's function that sets options takes arguments of any type: the compiler does
// not notice a wrong one. Here each type has its own function.
CURLcode SetLong(CURL* curl, CURLoption option, long value) {
  return curl_easy_setopt(curl, option, value);
}
CURLcode SetText(CURL* curl, CURLoption option, const std::string& value) {
  return value.empty() ? CURLE_OK : curl_easy_setopt(curl, option, value.c_str());
}

size_t KeepReply(char* bytes, size_t size, size_t count, void* reply) {
  auto* body = static_cast<std::string*>(reply);
  const size_t room = HttpPoster::kMostReplyBytes - body->size();
  body->append(bytes, std::min(size * count, room));
  return size * count;
}

absl::Status StatusOf(CURLcode code, const std::string& url, const char* detail) {
  const std::string text =
      absl::StrCat("POST ", PublicUrl(url), ": ",
                   *detail != '\0' ? detail : curl_easy_strerror(code));
  return code == CURLE_OPERATION_TIMEDOUT ? absl::DeadlineExceededError(text)
                                          : absl::UnavailableError(text);
}

// The parts of a URL; not valid() if the text is not a URL.
class Url {
 public:
  explicit Url(const std::string& text) : url_(curl_url()) {
    valid_ = url_ != nullptr &&
             curl_url_set(url_, CURLUPART_URL, text.c_str(), 0) == CURLUE_OK;
  }
  ~Url() { curl_url_cleanup(url_); }
  Url(const Url&) = delete;
  Url& operator=(const Url&) = delete;

  bool valid() const { return valid_; }
  void Remove(CURLUPart part) { curl_url_set(url_, part, nullptr, 0); }
  void Set(CURLUPart part, const std::string& text) {
    curl_url_set(url_, part, text.c_str(), 0);
  }
  std::string Get(CURLUPart part) const {
    char* text = nullptr;
    if (curl_url_get(url_, part, &text, 0) != CURLUE_OK) return "";
    std::string found = text;
    curl_free(text);
    return found;
  }

 private:
  CURLU* const url_;
  bool valid_ = false;
};

std::string WithQuery(const std::string& text, const std::string& query) {
  Url url(text);
  url.Set(CURLUPART_QUERY, query);
  return url.Get(CURLUPART_URL);
}

class CurlPoster : public HttpPoster {
 public:
  explicit CurlPoster(HttpPostOptions options) : options_(std::move(options)) {}
  CurlPoster(const CurlPoster&) = delete;
  CurlPoster& operator=(const CurlPoster&) = delete;
  ~CurlPoster() override {
    if (multi_ != nullptr) curl_multi_cleanup(multi_);
    if (easy_ != nullptr) curl_easy_cleanup(easy_);
    curl_slist_free_all(headers_);
  }

  absl::Status Prepare() {
    easy_ = curl_easy_init();
    multi_ = curl_multi_init();
    if (easy_ == nullptr || multi_ == nullptr) {
      return absl::ResourceExhaustedError("libcurl: no memory");
    }
    for (const std::string& header : options_.headers) {
      headers_ = curl_slist_append(headers_, header.c_str());
    }
    CURLcode code = SetText(easy_, CURLOPT_URL, options_.url);
    const auto set = [&code](CURLcode next) {
      if (code == CURLE_OK) code = next;
    };
    set(SetText(easy_, CURLOPT_PROTOCOLS_STR, "http,https"));
    set(SetLong(easy_, CURLOPT_NOSIGNAL, 1));
    set(SetLong(easy_, CURLOPT_FOLLOWLOCATION, 0));
    set(SetLong(easy_, CURLOPT_POST, 1));
    set(curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, headers_));
    set(curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &KeepReply));
    set(curl_easy_setopt(easy_, CURLOPT_WRITEDATA, &reply_.body));
    set(curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_));
    set(SetText(easy_, CURLOPT_USERAGENT,
                absl::StrCat(options_.agent, "/", ROCATTACH_VERSION)));
    set(SetText(easy_, CURLOPT_CAINFO, options_.ca_file));
    set(SetText(easy_, CURLOPT_SSLCERT, options_.certificate_file));
    set(SetText(easy_, CURLOPT_SSLKEY, options_.key_file));
    if (code == CURLE_OK) return absl::OkStatus();
    return absl::InternalError(
        absl::StrCat("libcurl refuses an option: ", curl_easy_strerror(code)));
  }

  absl::StatusOr<HttpPostReply> Post(absl::string_view body, uint64_t timeout_msec,
                                     const WakeEvent* stop) override {
    reply_.body.clear();
    error_[0] = '\0';
    SetLong(easy_, CURLOPT_TIMEOUT_MS, static_cast<long>(timeout_msec));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE,
                     static_cast<curl_off_t>(body.size()));
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.data());
    curl_multi_add_handle(multi_, easy_);
    const absl::Cleanup remove = [this] { curl_multi_remove_handle(multi_, easy_); };
    return Transfer(stop);
  }

  void SetQuery(const std::string& query) override {
    (void)SetText(easy_, CURLOPT_URL, WithQuery(options_.url, query));
  }

 private:
  absl::StatusOr<HttpPostReply> Transfer(const WakeEvent* stop) {
    uint64_t end_ns = UINT64_MAX;
    for (int running = 1; running > 0;) {
      CURLMcode code = curl_multi_perform(multi_, &running);
      curl_waitfd wake = {stop == nullptr ? -1 : stop->fd(), CURL_WAIT_POLLIN, 0};
      if (code == CURLM_OK && running > 0) {
        // The timeout of the transfer ends this wait too.
        code = curl_multi_poll(multi_, &wake, stop == nullptr ? 0 : 1,
                               end_ns == UINT64_MAX ? 1000 : 50, nullptr);
      }
      if (code != CURLM_OK) {
        return absl::InternalError(
            absl::StrCat("libcurl: ", curl_multi_strerror(code)));
      }
      if (running > 0 && wake.revents != 0) {
        // The signal remains set for later waits; here it is waited for no longer.
        end_ns = ClockNs(CLOCK_MONOTONIC) + kStopMsec * 1'000'000;
        stop = nullptr;
      }
      if (running > 0 && ClockNs(CLOCK_MONOTONIC) > end_ns) {
        return absl::CancelledError("stopped");
      }
    }
    int left = 0;
    const CURLMsg* done = curl_multi_info_read(multi_, &left);
    if (done == nullptr) return absl::InternalError("libcurl: no result");
    if (done->data.result != CURLE_OK) {
      return StatusOf(done->data.result, options_.url, error_);
    }
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &reply_.status);
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
    reply_.retry_after_seconds.reset();
    if (seconds > 0) reply_.retry_after_seconds = static_cast<uint64_t>(seconds);
    reply_.grpc_status.reset();
    curl_header* grpc_status = nullptr;
    int code = 0;
    if (curl_easy_header(easy_, "grpc-status", 0, CURLH_HEADER, -1, &grpc_status) ==
            CURLHE_OK &&
        absl::SimpleAtoi(grpc_status->value, &code)) {
      reply_.grpc_status = code;
    }
    return reply_;
  }

  const HttpPostOptions options_;
  CURL* easy_ = nullptr;
  CURLM* multi_ = nullptr;
  curl_slist* headers_ = nullptr;
  HttpPostReply reply_;
  char error_[CURL_ERROR_SIZE] = "";
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpPoster>> HttpPoster::Create(
    HttpPostOptions options) {
  // Thread-safe by itself since libcurl 7.84, unless that was built without support.
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  const Url url(options.url);
  const std::string scheme = url.valid() ? url.Get(CURLUPART_SCHEME) : "";
  if (scheme != "http" && scheme != "https") {
    return absl::InvalidArgumentError(
        absl::StrCat("'", PublicUrl(options.url), "' is not a URL of http or https"));
  }
  for (const std::string& header : options.headers) {
    if (header.find_first_of("\r\n") != std::string::npos) {
      return absl::InvalidArgumentError("a header contains a line break");
    }
  }
  auto poster = std::make_unique<CurlPoster>(std::move(options));
  if (absl::Status prepared = poster->Prepare(); !prepared.ok()) return prepared;
  return poster;
}

std::string PublicUrl(const std::string& text) {
  Url url(text);
  if (!url.valid()) return text;
  url.Remove(CURLUPART_USER);
  url.Remove(CURLUPART_PASSWORD);
  url.Remove(CURLUPART_QUERY);
  return url.Get(CURLUPART_URL);
}

}  // namespace rocattach
