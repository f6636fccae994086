#include "userspace/push/profile_settings.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr char kHeadersVariable[] = "ROCATTACH_PROFILE_PUSH_HEADERS";
// Parca's server speaks gRPC, and gRPC-Web to clients that speak HTTP/1.1.
constexpr char kParcaCall[] =
    "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw";
constexpr char kPyroscopePath[] = "/ingest";

std::string WithPath(absl::string_view url, absl::string_view path) {
  url = absl::StripSuffix(url, "/");
  return absl::EndsWith(url, path) ? std::string(url) : absl::StrCat(url, path);
}

}  // namespace

absl::StatusOr<ProfilePushSettings> MakeProfilePushSettings(
    const std::string& target, uint64_t interval_msec, const GetVariable& variable) {
  ProfilePushSettings settings;
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(target, absl::MaxSplits('=', 1));
  if (parts.first == "parca") {
    settings.server = ProfilePushSettings::Server::kParca;
    settings.post.url = WithPath(parts.second, kParcaCall);
    settings.post.headers = {"Content-Type: application/grpc-web+proto",
                             "Accept: application/grpc-web+proto", "X-Grpc-Web: 1"};
  } else if (parts.first == "pyroscope") {
    settings.server = ProfilePushSettings::Server::kPyroscope;
    settings.post.url = WithPath(parts.second, kPyroscopePath);
  } else {
    // The text is not quoted, because it may contain a password.
    return absl::InvalidArgumentError(
        "neither parca=URL nor pyroscope=URL, the URL of a server");
  }
  settings.post.agent = "rocattach-watch";
  // Otherwise large requests wait for "100 Continue".
  settings.post.headers.push_back("Expect:");
  ASSIGN_OR_RETURN(const NameValueList headers,
                   ParseNameValueList(kHeadersVariable, variable(kHeadersVariable)));
  for (const auto& [name, value] : headers) {
    settings.post.headers.push_back(absl::StrCat(name, ": ", value));
  }
  if (interval_msec != 0) settings.interval_msec = interval_msec;
  // A bad URL or header is an error of the command line, not of the first push.
  RETURN_IF_ERROR(HttpPoster::Create(settings.post).status());
  return settings;
}

}  // namespace rocattach
