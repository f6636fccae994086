#include "userspace/push/push_loop.h"

#include <pthread.h>

#include <algorithm>
#include <utility>

#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"

namespace rocattach {

PushLoop::PushLoop(const Options& options, PushCounts* counts,
                   PushStateFunction on_state)
    : options_(options),
      counts_(counts),
      on_state_(std::move(on_state)),
      schedule_(ClockNs(CLOCK_REALTIME)) {}

absl::Status PushLoop::Start(PushFunction push) {
  RETURN_IF_ERROR(stop_.status());
  push_ = std::move(push);
  thread_ = std::thread([this] { Run(); });
  return absl::OkStatus();
}

void PushLoop::Stop() {
  if (!thread_.joinable()) return;
  stop_.Signal();
  thread_.join();
}

void PushLoop::Run() {
  (void)pthread_setname_np(pthread_self(), options_.thread_name);
  const uint64_t interval_ns = options_.interval_msec * 1'000'000;
  uint64_t wait_ns = interval_ns;
  while (!stop_.WaitFor(wait_ns)) {
    const uint64_t begin_ns = ClockNs(CLOCK_MONOTONIC);
    PushAttempt attempt = {options_.timeout_msec, &stop_, {}};
    if (push_(&attempt) == PushResult::kRetry) {
      wait_ns = schedule_.NextDelayMsec(attempt.retry_after_seconds) * 1'000'000;
      continue;
    }
    schedule_.Reset();
    // The rate is one push per interval; a slow server does not lower it.
    const uint64_t took_ns = ClockNs(CLOCK_MONOTONIC) - begin_ns;
    wait_ns = interval_ns - std::min(took_ns, interval_ns / 2);
  }
  // Sent again, what the server may have taken would count twice.
  if (cancelled_) return;
  PushAttempt last = {std::min(options_.timeout_msec, kLastPushMsec), nullptr, {}};
  (void)push_(&last);
}

std::optional<HttpPostReply> PushLoop::Post(HttpPoster* poster, absl::string_view body,
                                            PushAttempt* attempt) {
  auto reply = poster->Post(body, attempt->timeout_msec, attempt->stop);
  if (!reply.ok()) {
    cancelled_ = absl::IsCancelled(reply.status());
    CountFailed(cancelled_ ? absl::DeadlineExceededError(
                                 "the server had not answered when the service ended")
                           : reply.status());
    return std::nullopt;
  }
  attempt->retry_after_seconds = reply->retry_after_seconds;
  return *std::move(reply);
}

void PushLoop::CountAccepted(const absl::Status& state) {
  ++counts_->accepted;
  ReportState(state);
}

void PushLoop::CountFailed(const absl::Status& why) {
  ++counts_->failed;
  ReportState(why);
}

void PushLoop::ReportState(const absl::Status& state) {
  if (failing_ == !state.ok()) return;
  failing_ = !state.ok();
  if (on_state_ != nullptr) on_state_(state);
}

}  // namespace rocattach
