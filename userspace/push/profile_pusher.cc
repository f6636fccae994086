#include "userspace/push/profile_pusher.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/push/profile_request.h"

namespace rocattach {
namespace {

using Server = ProfilePushSettings::Server;

std::string HostName() {
  char name[256] = "";
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "";
}

HttpPostOptions PostOptions(const ProfilePushSettings& settings) {
  HttpPostOptions post = settings.post;
  if (settings.server == Server::kPyroscope) {
    post.headers.push_back(absl::StrCat("Content-Type: multipart/form-data; boundary=",
                                        kPyroscopeBoundary));
  }
  return post;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ProfilePusher>> ProfilePusher::Start(
    const ProfilePushSettings& settings, MetricsSource* source, PushCounts* counts,
    PushStateFunction on_state, ClockFunction clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<HttpPoster> poster,
                   HttpPoster::Create(PostOptions(settings)));
  auto pusher = std::unique_ptr<ProfilePusher>(
      new ProfilePusher(settings, std::move(poster), source, counts,
                        std::move(on_state), std::move(clock)));
  RETURN_IF_ERROR(
      pusher->loop_.Start([raw = pusher.get()](auto* a) { return raw->Push(a); }));
  return pusher;
}

ProfilePusher::ProfilePusher(const ProfilePushSettings& settings,
                             std::unique_ptr<HttpPoster> poster, MetricsSource* source,
                             PushCounts* counts, PushStateFunction on_state,
                             ClockFunction clock)
    : settings_(settings),
      poster_(std::move(poster)),
      source_(source),
      clock_(std::move(clock)),
      accumulator_(HostName()),
      loop_({"rwa-profiles", settings.interval_msec, settings.timeout_msec}, counts,
            std::move(on_state)) {}

PushResult ProfilePusher::Push(PushAttempt* attempt) {
  const uint64_t deadline_ns =
      ClockNs(CLOCK_MONOTONIC) + attempt->timeout_msec * 1'000'000;
  const absl::StatusOr<NodeSnapshot> snapshot =
      source_->CaptureSnapshot(MetricsConsumer::kProfile);
  if (!snapshot.ok()) {
    loop_.CountFailed(snapshot.status());
    return PushResult::kRetry;
  }
  accumulator_.Add(*snapshot, clock_().realtime_ns);
  for (const ProfileLabels& workload : accumulator_.Workloads()) {
    const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
    // The remaining workloads go with the next push.
    if (now_ns >= deadline_ns) return PushResult::kRetry;
    attempt->timeout_msec = (deadline_ns - now_ns) / 1'000'000 + 1;
    const PushResult result = PushOne(workload, attempt);
    if (result == PushResult::kRetry) return result;
    accumulator_.Drop(workload);
  }
  // Slow names use up the time limit of the demangler for all other names.
  if (demangler_->given_up() > 0) demangler_ = std::make_unique<Demangler>();
  return PushResult::kAccepted;
}

PushResult ProfilePusher::PushOne(const ProfileLabels& workload, PushAttempt* attempt) {
  const auto body = Body(workload);
  if (!body.ok()) {
    loop_.CountFailed(body.status());
    return PushResult::kRefused;
  }
  const auto reply = loop_.Post(poster_.get(), *body, attempt);
  return reply.has_value() ? Judge(*reply) : PushResult::kRetry;
}

absl::StatusOr<std::string> ProfilePusher::Body(const ProfileLabels& workload) {
  ProfileData data = accumulator_.Profile(workload, demangler_.get());
  uint64_t begin_ns = UINT64_MAX, end_ns = 0;
  for (const ProfileProcess& process : data.processes) {
    begin_ns = std::min(begin_ns, process.begin_ns);
    end_ns = std::max(end_ns, process.end_ns);
  }
  // In Pyroscope, each label of a sample would make a series of its own.
  data.labels = settings_.server == Server::kParca;
  ASSIGN_OR_RETURN(const std::string pprof, EncodePprof(data));
  if (settings_.server == Server::kParca) return ParcaRequest(workload, pprof);
  poster_->SetQuery(PyroscopeQuery(workload, begin_ns, end_ns));
  return PyroscopeRequest(pprof);
}

PushResult ProfilePusher::Judge(const HttpPostReply& reply) {
  std::string message;
  PushResult result = ResultOfHttpStatus(reply.status);
  if (settings_.server == Server::kParca) {
    result = ParcaResult(reply, &message);
  } else if (result != PushResult::kAccepted) {
    message = absl::StrCat("the server answered with status ", reply.status);
  }
  if (result == PushResult::kAccepted) {
    loop_.CountAccepted();
    return result;
  }
  if (reply.status == 401 || reply.status == 403) {
    absl::StrAppend(&message,
                    "; ROCATTACH_PROFILE_PUSH_HEADERS holds what it asks for");
  }
  loop_.CountFailed(absl::UnavailableError(
      absl::StrCat("POST ", PublicUrl(settings_.post.url), ": ", message)));
  return result;
}

}  // namespace rocattach
