// Pushes the GPU work of processes to a server of continuous profiles.
#ifndef ROCATTACH_USERSPACE_PUSH_PROFILE_PUSHER_H_
#define ROCATTACH_USERSPACE_PUSH_PROFILE_PUSHER_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/base/demangler.h"
#include "userspace/push/http_post.h"
#include "userspace/push/metrics_pusher.h"
#include "userspace/push/profile_accumulator.h"
#include "userspace/push/profile_settings.h"
#include "userspace/push/push_loop.h"
#include "userspace/telemetry/metrics_source.h"

namespace rocattach {

// Once per interval, on a thread of its own, pushes a profile for each workload that
// was active: the growth of its totals since the last accepted one. A profile that
// cannot be pushed is tried again, together with later growth. A profile that the
// server refuses is dropped.
class ProfilePusher {
 public:
  // `source` and `counts` (of requests) must outlive it.
  static absl::StatusOr<std::unique_ptr<ProfilePusher>> Start(
      const ProfilePushSettings& settings, MetricsSource* source, PushCounts* counts,
      PushStateFunction on_state, ClockFunction clock = CaptureClockSnapshot);
  // Pushes once more.
  ~ProfilePusher() { loop_.Stop(); }
  ProfilePusher(const ProfilePusher&) = delete;
  ProfilePusher& operator=(const ProfilePusher&) = delete;

 private:
  ProfilePusher(const ProfilePushSettings& settings, std::unique_ptr<HttpPoster> poster,
                MetricsSource* source, PushCounts* counts, PushStateFunction on_state,
                ClockFunction clock);
  // Pushes all workloads, within the attempt's time. kRetry if any is left.
  PushResult Push(PushAttempt* attempt);
  // Pushes one workload.
  PushResult PushOne(const ProfileLabels& workload, PushAttempt* attempt);
  absl::StatusOr<std::string> Body(const ProfileLabels& workload);
  PushResult Judge(const HttpPostReply& reply);

  const ProfilePushSettings settings_;
  const std::unique_ptr<HttpPoster> poster_;
  MetricsSource* const source_;
  const ClockFunction clock_;
  ProfileAccumulator accumulator_;
  std::unique_ptr<Demangler> demangler_ = std::make_unique<Demangler>();
  PushLoop loop_;  // its thread uses everything above
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_PUSHER_H_
