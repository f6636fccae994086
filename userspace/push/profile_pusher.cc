#include "userspace/push/profile_pusher.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
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
  RETURN_IF_ERROR(pusher->stop_.status());
  pusher->thread_ = std::thread([raw = pusher.get()] { raw->Run(); });
  return pusher;
}

ProfilePusher::ProfilePusher(const ProfilePushSettings& settings,
                             std::unique_ptr<HttpPoster> poster, MetricsSource* source,
                             PushCounts* counts, PushStateFunction on_state,
                             ClockFunction clock)
    : settings_(settings),
      poster_(std::move(poster)),
      source_(source),
      counts_(counts),
      on_state_(std::move(on_state)),
      clock_(std::move(clock)),
      accumulator_(HostName()),
      schedule_(ClockNs(CLOCK_REALTIME)) {}

ProfilePusher::~ProfilePusher() {
  stop_.Signal();
  if (thread_.joinable()) thread_.join();
}

void ProfilePusher::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-profiles");
  const uint64_t interval_ns = settings_.interval_msec * 1'000'000;
  uint64_t wait_ns = interval_ns;
  while (!stop_.WaitFor(wait_ns)) {
    const uint64_t begin_ns = ClockNs(CLOCK_MONOTONIC);
    std::optional<uint64_t> retry_after;
    wait_ns = interval_ns;
    if (Push(settings_.timeout_msec, &stop_, &retry_after) == PushResult::kRetry) {
      wait_ns = schedule_.NextDelayMsec(retry_after) * 1'000'000;
      continue;
    }
    schedule_.Reset();
    // The rate is one push an interval; a slow server does not lower it.
    wait_ns -= std::min(ClockNs(CLOCK_MONOTONIC) - begin_ns, interval_ns / 2);
  }
  std::optional<uint64_t> unused;
  (void)Push(std::min(settings_.timeout_msec, kLastPushMsec), nullptr, &unused);
}

PushResult ProfilePusher::Push(uint64_t timeout_msec, const WakeEvent* stop,
                               std::optional<uint64_t>* retry_after_seconds) {
  const uint64_t deadline_ns = ClockNs(CLOCK_MONOTONIC) + timeout_msec * 1'000'000;
  const absl::StatusOr<NodeSnapshot> snapshot =
      source_->Take(MetricsConsumer::kProfile);
  if (!snapshot.ok()) {
    ++counts_->failed;
    Note(snapshot.status());
    return PushResult::kRetry;
  }
  accumulator_.Add(*snapshot, clock_().realtime_ns);
  for (const ProfileLabels& workload : accumulator_.Workloads()) {
    const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
    // What is left goes with the next push.
    if (now_ns >= deadline_ns) return PushResult::kRetry;
    const uint64_t left_msec = (deadline_ns - now_ns) / 1'000'000 + 1;
    const PushResult result = PushOne(workload, left_msec, stop, retry_after_seconds);
    if (result == PushResult::kRetry) return result;
    accumulator_.Drop(workload);
  }
  // Names that took too long use up the demangler's patience, also for others.
  if (demangler_->given_up() > 0) demangler_ = std::make_unique<Demangler>();
  return PushResult::kAccepted;
}

PushResult ProfilePusher::PushOne(const ProfileLabels& workload, uint64_t timeout_msec,
                                  const WakeEvent* stop,
                                  std::optional<uint64_t>* retry_after_seconds) {
  auto body = Body(workload);
  if (!body.ok()) {
    ++counts_->failed;
    Note(body.status());
    return PushResult::kRefused;
  }
  auto reply = poster_->Post(*body, timeout_msec, stop);
  // The push at the end of the service takes its place.
  if (absl::IsCancelled(reply.status())) return PushResult::kRetry;
  if (!reply.ok()) {
    ++counts_->failed;
    Note(reply.status());
    return PushResult::kRetry;
  }
  *retry_after_seconds = reply->retry_after_seconds;
  return Judge(*reply);
}

absl::StatusOr<std::string> ProfilePusher::Body(const ProfileLabels& workload) {
  ProfileData data = accumulator_.Profile(workload, demangler_.get());
  uint64_t begin_ns = UINT64_MAX, end_ns = 0;
  for (const ProfileProcess& process : data.processes) {
    begin_ns = std::min(begin_ns, process.begin_ns);
    end_ns = std::max(end_ns, process.end_ns);
  }
  // There, each label of a sample would make a series of its own.
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
    ++counts_->accepted;
    Note(absl::OkStatus());
    return result;
  }
  ++counts_->failed;
  if (reply.status == 401 || reply.status == 403) {
    absl::StrAppend(&message,
                    "; ROCATTACH_PROFILE_PUSH_HEADERS holds what it asks for");
  }
  Note(absl::UnavailableError(
      absl::StrCat("POST ", PublicUrl(settings_.post.url), ": ", message)));
  return result;
}

void ProfilePusher::Note(const absl::Status& state) {
  if (failing_ == !state.ok()) return;
  failing_ = !state.ok();
  if (on_state_ != nullptr) on_state_(state);
}

}  // namespace rocattach
