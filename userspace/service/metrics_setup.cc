#include "userspace/service/metrics_setup.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// Time for which counters are measured in each period, and the interval at which they
// are read and the next pass is due.
constexpr uint64_t kMetricsCountingNs = 1'000'000'000;
constexpr uint64_t kMetricsSampleNs = 100'000'000;

}  // namespace

std::unique_ptr<ServiceMetrics> MakeServiceMetrics(const WatcherOptions& options) {
  NodeMetersOptions meters = options.metrics;
  meters.consumers = 0;
  const auto add = [&meters](bool wanted, MetricsConsumer consumer) {
    if (wanted) meters.consumers |= static_cast<uint8_t>(consumer);
  };
  add(options.metrics_listen.has_value(), MetricsConsumer::kScrape);
  add(options.otlp.has_value(), MetricsConsumer::kPush);
  add(options.profile_push.has_value(), MetricsConsumer::kProfile);
  if (meters.consumers == 0) return nullptr;
  return std::make_unique<ServiceMetrics>(meters);
}

absl::Status PublishMetrics(const WatcherOptions& options, Recorder* recorder,
                            WatcherObserver* observer, ServiceMetrics* metrics) {
  if (options.otlp.has_value()) {
    RETURN_IF_ERROR(
        metrics->Push(*options.otlp, recorder, [observer](const absl::Status& state) {
          if (observer != nullptr) observer->OnMetricsPush(state);
        }));
  }
  if (options.profile_push.has_value()) {
    RETURN_IF_ERROR(metrics->PushProfiles(*options.profile_push, recorder,
                                          [observer](const absl::Status& state) {
                                            if (observer != nullptr)
                                              observer->OnProfilePush(state);
                                          }));
  }
  if (!options.metrics_listen.has_value()) return absl::OkStatus();
  return metrics->Listen(*options.metrics_listen, options.metrics_hosts, recorder);
}

absl::Status CountForMetrics(const WatcherOptions& options, SessionService* sessions,
                             ServiceMetrics* metrics) {
  if (options.metrics_counters.empty()) return absl::OkStatus();
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.counters = {options.metrics_counters};
  spec.sample_interval_ns = kMetricsSampleNs;
  // Counters that a GPU lacks are left out for that GPU.
  spec.optional = options.metrics_counters;
  SessionRequest request;
  request.filters = {std::move(spec)};
  request.periods = {{options.metrics_counters_period_ns - kMetricsCountingNs,
                      kMetricsCountingNs, /*repeat=*/0}};
  request.yields = true;
  auto session = sessions->Start(std::move(request));
  if (!session.ok()) {
    return absl::Status(
        session.status().code(),
        absl::StrCat("--metrics-counters: ", session.status().message()));
  }
  metrics->AddOwnSession(*session);
  return absl::OkStatus();
}

}  // namespace rocattach
