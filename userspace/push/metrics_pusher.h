// Pushes snapshots to an OpenTelemetry collector, on a thread of its own.
#ifndef ROCATTACH_USERSPACE_PUSH_METRICS_PUSHER_H_
#define ROCATTACH_USERSPACE_PUSH_METRICS_PUSHER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "userspace/base/clock.h"
#include "userspace/base/demangler.h"
#include "userspace/push/http_post.h"
#include "userspace/push/otlp_metrics.h"
#include "userspace/push/otlp_settings.h"
#include "userspace/push/push_loop.h"
#include "userspace/telemetry/metrics_source.h"

namespace rocattach {

using ClockFunction = std::function<ClockSnapshot()>;

// Pushes the totals so far once per interval. A failed push is tried again, with newer
// totals each time: only the points in between are lost, and nothing accumulates. After
// a refusal by the collector, the next push waits for the next interval.
class MetricsPusher {
 public:
  // `source` and `counts` must outlive it. `clock` is read at each push, because the
  // clock may be set while the service runs.
  static absl::StatusOr<std::unique_ptr<MetricsPusher>> Start(
      const OtlpSettings& settings, MetricsSource* source, PushCounts* counts,
      PushStateFunction on_state, ClockFunction clock = CaptureClockSnapshot);
  // Pushes once more.
  ~MetricsPusher() { loop_.Stop(); }
  MetricsPusher(const MetricsPusher&) = delete;
  MetricsPusher& operator=(const MetricsPusher&) = delete;

 private:
  MetricsPusher(const OtlpSettings& settings, std::unique_ptr<HttpPoster> poster,
                MetricsSource* source, PushCounts* counts, PushStateFunction on_state,
                ClockFunction clock);
  // Sends one request.
  PushResult Push(PushAttempt* attempt);
  absl::StatusOr<std::string> Body();
  // Evaluates and counts the collector's answer.
  PushResult Judge(const HttpPostReply& reply);
  // Counts the points that the collector rejected; an error if there are any.
  absl::Status CheckRejected(const HttpPostReply& reply);

  const OtlpSettings settings_;
  const std::unique_ptr<HttpPoster> poster_;
  MetricsSource* const source_;
  PushCounts* const counts_;
  const ClockFunction clock_;
  OtlpService service_;
  std::unique_ptr<Demangler> demangler_ = std::make_unique<Demangler>();
  PushLoop loop_;  // its thread uses everything above
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_PUSH_METRICS_PUSHER_H_
