// Pushes snapshots to a collector, on a thread of its own.
#ifndef ROCATTACH_USERSPACE_PUSH_METRICS_PUSHER_H_
#define ROCATTACH_USERSPACE_PUSH_METRICS_PUSHER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/clock.h"
#include "userspace/base/demangler.h"
#include "userspace/base/wake_event.h"
#include "userspace/push/http_post.h"
#include "userspace/push/otlp_metrics.h"
#include "userspace/push/otlp_settings.h"
#include "userspace/push/push_schedule.h"
#include "userspace/telemetry/metrics_source.h"
#include "userspace/telemetry/push_counts.h"

namespace rocattach {

// Called on the pusher's thread when pushes begin to fail, with the reason, and with OK
// when one is accepted again.
using PushStateFunction = std::function<void(const absl::Status&)>;
using ClockFunction = std::function<ClockSnapshot()>;

// Every interval, the totals so far. A push that fails is tried again, with newer
// totals each time: nothing is lost but the points in between, and nothing piles up.
// One that the collector refuses waits for the next interval.
class MetricsPusher {
 public:
  // How long the last push, at the end, may take.
  static constexpr uint64_t kLastPushMsec = 3000;

  // `source` and `counts` must outlive it. `clock` is read at each push: it may be set
  // while the service runs.
  static absl::StatusOr<std::unique_ptr<MetricsPusher>> Start(
      const OtlpSettings& settings, MetricsSource* source, PushCounts* counts,
      PushStateFunction on_state, ClockFunction clock = TakeClockSnapshot);
  // Pushes once more.
  ~MetricsPusher();
  MetricsPusher(const MetricsPusher&) = delete;
  MetricsPusher& operator=(const MetricsPusher&) = delete;

 private:
  MetricsPusher(const OtlpSettings& settings, std::unique_ptr<HttpPoster> poster,
                MetricsSource* source, PushCounts* counts, PushStateFunction on_state,
                ClockFunction clock);
  void Run();
  // One request. `retry_after_seconds`: as in HttpPostReply.
  PushResult Push(uint64_t timeout_msec, const WakeEvent* stop,
                  std::optional<uint64_t>* retry_after_seconds);
  absl::StatusOr<std::string> Body();
  // Counts what the collector has answered.
  PushResult Judge(const HttpPostReply& reply);
  void Note(const absl::Status& state);

  const OtlpSettings settings_;
  const std::unique_ptr<HttpPoster> poster_;
  MetricsSource* const source_;
  PushCounts* const counts_;
  const PushStateFunction on_state_;
  const ClockFunction clock_;
  OtlpService service_;
  PushSchedule schedule_;
  std::unique_ptr<Demangler> demangler_ = std::make_unique<Demangler>();
  bool failing_ = false;
  WakeEvent stop_;
  std::thread thread_;  // uses everything above
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_METRICS_PUSHER_H_
