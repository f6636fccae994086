// Pushes what processes do on GPUs to a server of continuous profiles.
#ifndef ROCATTACH_USERSPACE_PUSH_PROFILE_PUSHER_H_
#define ROCATTACH_USERSPACE_PUSH_PROFILE_PUSHER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "userspace/base/demangler.h"
#include "userspace/base/wake_event.h"
#include "userspace/push/http_post.h"
#include "userspace/push/metrics_pusher.h"
#include "userspace/push/profile_accumulator.h"
#include "userspace/push/profile_settings.h"
#include "userspace/push/push_schedule.h"
#include "userspace/telemetry/metrics_source.h"
#include "userspace/telemetry/push_counts.h"

namespace rocattach {

// Every interval, on a thread of its own, one profile for each workload that has done
// anything: the growth of its totals since the last one that was accepted. What cannot
// be pushed is tried again, with what has come meanwhile. What the server refuses is
// dropped.
class ProfilePusher {
 public:
  // How long the last push, at the end, may take.
  static constexpr uint64_t kLastPushMsec = 3000;

  // `source` and `counts`, of requests, must outlive it.
  static absl::StatusOr<std::unique_ptr<ProfilePusher>> Start(
      const ProfilePushSettings& settings, MetricsSource* source, PushCounts* counts,
      PushStateFunction on_state, ClockFunction clock = TakeClockSnapshot);
  // Pushes once more.
  ~ProfilePusher();
  ProfilePusher(const ProfilePusher&) = delete;
  ProfilePusher& operator=(const ProfilePusher&) = delete;

 private:
  ProfilePusher(const ProfilePushSettings& settings, std::unique_ptr<HttpPoster> poster,
                MetricsSource* source, PushCounts* counts, PushStateFunction on_state,
                ClockFunction clock);
  void Run();
  // All workloads, for so long. kRetry if any is left.
  PushResult Push(uint64_t timeout_msec, const WakeEvent* stop,
                  std::optional<uint64_t>* retry_after_seconds);
  // One workload.
  PushResult PushOne(const ProfileLabels& workload, uint64_t timeout_msec,
                     const WakeEvent* stop,
                     std::optional<uint64_t>* retry_after_seconds);
  absl::StatusOr<std::string> Body(const ProfileLabels& workload);
  PushResult Judge(const HttpPostReply& reply);
  void Note(const absl::Status& state);

  const ProfilePushSettings settings_;
  const std::unique_ptr<HttpPoster> poster_;
  MetricsSource* const source_;
  PushCounts* const counts_;
  const PushStateFunction on_state_;
  const ClockFunction clock_;
  ProfileAccumulator accumulator_;
  PushSchedule schedule_;
  std::unique_ptr<Demangler> demangler_ = std::make_unique<Demangler>();
  bool failing_ = false;
  WakeEvent stop_;
  std::thread thread_;  // uses everything above
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_PROFILE_PUSHER_H_
