// Profiles as requests to the supported servers, and these servers' answers.
#ifndef ROCATTACH_USERSPACE_PUSH_PROFILE_REQUEST_H_
#define ROCATTACH_USERSPACE_PUSH_PROFILE_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/push/http_post.h"
#include "userspace/push/profile_accumulator.h"
#include "userspace/push/push_schedule.h"

namespace rocattach {

// The name of the series of profiles on the servers.
inline constexpr char kProfileName[] = "rocattach_gpu";

// The body of a gRPC-Web call of Parca's WriteRaw with one profile with these labels.
std::string ParcaRequest(const ProfileLabels& labels, absl::string_view pprof);
// Evaluates the server's answer: the HTTP status, then the gRPC status, which is in the
// body or in a header. On failure `message` is set to a description.
PushResult ParcaResult(const HttpPostReply& reply, std::string* message);

// Parts of the multipart body of Pyroscope's POST /ingest are separated by this.
inline constexpr char kPyroscopeBoundary[] = "rocattach-1f0c6f9f5d0c4d6e";
// The body for POST /ingest: the profile, and the definitions of its sample types.
std::string PyroscopeRequest(absl::string_view pprof);
// The query for it: name with labels, and the time span.
std::string PyroscopeQuery(const ProfileLabels& labels, uint64_t begin_ns,
                           uint64_t end_ns);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_REQUEST_H_
