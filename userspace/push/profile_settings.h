// Settings for pushing profiles, from the options and the environment.
#ifndef ROCATTACH_USERSPACE_PUSH_PROFILE_SETTINGS_H_
#define ROCATTACH_USERSPACE_PUSH_PROFILE_SETTINGS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/push/http_post.h"
#include "userspace/push/otlp_settings.h"

namespace rocattach {

struct ProfilePushSettings {
  enum class Server { kParca, kPyroscope };
  Server server = Server::kParca;
  HttpPostOptions post;  // complete
  uint64_t interval_msec = 60'000;
  uint64_t timeout_msec = 10'000;
};

// `target` is parca=URL or pyroscope=URL, the URL of the server itself. Headers, such as
// Authorization or X-Scope-OrgID, come from ROCATTACH_PROFILE_PUSH_HEADERS, in the format
// of OTEL_EXPORTER_OTLP_HEADERS. INVALID_ARGUMENT states the problem, without the
// value of any header.
absl::StatusOr<ProfilePushSettings> MakeProfilePushSettings(
    const std::string& target, uint64_t interval_msec, const GetVariable& variable);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_SETTINGS_H_
