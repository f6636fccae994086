#include "userspace/push/profile_request.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "schemas/export/parca.pb.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

// A gRPC-Web message is preceded by one byte of flags and four bytes of length.
constexpr size_t kFrameHead = 5;
constexpr uint8_t kTrailerFlag = 0x80;
constexpr size_t kMostReplyBytes = 200;

// Status codes of gRPC after which the same call may succeed.
bool MayBeRetried(int grpc_status) {
  constexpr int kCancelled = 1, kDeadlineExceeded = 4, kResourceExhausted = 8,
                kAborted = 10, kUnavailable = 14;
  return grpc_status == kCancelled || grpc_status == kDeadlineExceeded ||
         grpc_status == kResourceExhausted || grpc_status == kAborted ||
         grpc_status == kUnavailable;
}

uint32_t FrameLength(absl::string_view body, size_t at) {
  uint32_t length = 0;
  for (size_t i = 1; i < kFrameHead; ++i) {
    length = length << 8 | static_cast<uint8_t>(body[at + i]);
  }
  return length;
}

// The trailers, which are the last frame; empty if there are none.
absl::string_view Trailers(absl::string_view body) {
  for (size_t at = 0; body.size() - at >= kFrameHead;) {
    const size_t length = FrameLength(body, at);
    if (length > body.size() - at - kFrameHead) return "";
    if ((static_cast<uint8_t>(body[at]) & kTrailerFlag) != 0) {
      return body.substr(at + kFrameHead, length);
    }
    at += kFrameHead + length;
  }
  return "";
}

std::optional<int> StatusIn(absl::string_view trailers, std::string* message) {
  std::optional<int> status;
  for (const absl::string_view line : absl::StrSplit(trailers, "\r\n")) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(line, absl::MaxSplits(':', 1));
    const absl::string_view value = absl::StripAsciiWhitespace(pair.second);
    int number = 0;
    if (absl::EqualsIgnoreCase(pair.first, "grpc-status") &&
        absl::SimpleAtoi(value, &number)) {
      status = number;
    }
    if (absl::EqualsIgnoreCase(pair.first, "grpc-message")) {
      *message = CleanText(std::string(value.substr(0, kMostReplyBytes)));
    }
  }
  return status;
}

// A label's text for use in the name: characters that separate labels are replaced.
std::string LabelText(const std::string& text) {
  std::string clean = text;
  for (char& c : clean) {
    if (absl::StrContains("{},=\"", std::string(1, c))) c = '_';
  }
  return clean;
}

std::string PercentEncode(const std::string& text) {
  std::string encoded;
  for (const char c : text) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' ||
        c == '.') {
      encoded.push_back(c);
    } else {
      absl::StrAppendFormat(&encoded, "%%%02X", static_cast<uint8_t>(c));
    }
  }
  return encoded;
}

std::string Part(absl::string_view name, absl::string_view type,
                 absl::string_view content) {
  return absl::StrCat("--", kPyroscopeBoundary,
                      "\r\nContent-Disposition: form-data; name=\"", name,
                      "\"; filename=\"", name, "\"\r\nContent-Type: ", type, "\r\n\r\n",
                      content, "\r\n");
}

}  // namespace

std::string ParcaRequest(const ProfileLabels& labels, absl::string_view pprof) {
  parca::WriteRawRequest request;
  parca::RawProfileSeries* series = request.add_series();
  const auto add = [series](const std::string& name, const std::string& value) {
    parca::Label* label = series->mutable_labels()->add_labels();
    label->set_name(name);
    label->set_value(value);
  };
  add("__name__", kProfileName);
  for (const auto& [name, value] : labels) add(name, value);
  series->add_samples()->set_raw_profile(std::string(pprof));
  request.set_normalized(true);
  const auto length = static_cast<uint32_t>(request.ByteSizeLong());
  std::string body(1, '\0');
  for (int shift = 24; shift >= 0; shift -= 8) {
    body.push_back(static_cast<char>(length >> shift & 0xff));
  }
  request.AppendToString(&body);
  return body;
}

PushResult ParcaResult(const HttpPostReply& reply, std::string* message) {
  const PushResult result = ResultOfHttpStatus(reply.status);
  if (result != PushResult::kAccepted) {
    *message = absl::StrCat("the server answered with status ", reply.status);
    return result;
  }
  std::string said;
  std::optional<int> status = StatusIn(Trailers(reply.body), &said);
  if (!status.has_value()) status = reply.grpc_status;
  if (status == 0) return PushResult::kAccepted;
  if (!status.has_value()) {
    *message = "the answer is none of gRPC-Web; is this a Parca server?";
    return PushResult::kRefused;
  }
  *message = absl::StrCat("the server answered with gRPC status ", *status,
                          said.empty() ? "" : ": ", said);
  return MayBeRetried(*status) ? PushResult::kRetry : PushResult::kRefused;
}

std::string PyroscopeRequest(absl::string_view pprof) {
  // Without this, only the sample types of Go's profiles are stored.
  constexpr char kTypes[] =
      R"({"gpu_kernel_time":{"units":"nanoseconds","aggregation":"sum"},)"
      R"("dispatches":{"units":"count","aggregation":"sum"},)"
      R"("copied_bytes":{"units":"bytes","aggregation":"sum"}})";
  return absl::StrCat(Part("profile", "application/octet-stream", pprof),
                      Part("sample_type_config", "application/json", kTypes), "--",
                      kPyroscopeBoundary, "--\r\n");
}

std::string PyroscopeQuery(const ProfileLabels& labels, uint64_t begin_ns,
                           uint64_t end_ns) {
  constexpr uint64_t kSecond = 1'000'000'000;
  std::vector<std::string> pairs;
  for (const auto& [name, value] : labels) {
    pairs.push_back(absl::StrCat(name, "=", LabelText(value)));
  }
  const std::string name =
      absl::StrCat(kProfileName, "{", absl::StrJoin(pairs, ","), "}");
  return absl::StrCat("name=", PercentEncode(name), "&from=", begin_ns / kSecond,
                      "&until=", (end_ns + kSecond - 1) / kSecond,
                      "&spyName=rocattach");
}

}  // namespace rocattach
