// Profiles as requests to the servers that take them, and their answers.
#ifndef ROCATTACH_USERSPACE_PUSH_PROFILE_REQUEST_H_
#define ROCATTACH_USERSPACE_PUSH_PROFILE_REQUEST_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/push/http_post.h"
#include "userspace/push/profile_accumulator.h"
#include "userspace/push/push_schedule.h"

namespace rocattach {

// The name that series of profiles have at the servers.
inline constexpr char kProfileName[] = "rocattach_gpu";

// The body of a gRPC-Web call of Parca's WriteRaw with one profile of these labels.
std::string ParcaRequest(const ProfileLabels& labels, absl::string_view pprof);
// What the server has answered: status of HTTP, then of gRPC, which is in the body or in
// a header. `message` is set to what it says of a failure.
PushResult ParcaResult(const HttpPostReply& reply, std::string* message);

// Parts of the multipart body of Pyroscope's POST /ingest are separated by this.
inline constexpr char kPyroscopeBoundary[] = "rocattach-1f0c6f9f5d0c4d6e";
// That body: the profile, and what its sample types are.
std::string PyroscopeRequest(absl::string_view pprof);
// Its query: name with labels, and the span of time.
std::string PyroscopeQuery(const ProfileLabels& labels, uint64_t begin_ns,
                           uint64_t end_ns);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_REQUEST_H_
