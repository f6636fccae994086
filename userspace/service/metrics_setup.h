// Sets up the metrics that the options of a service request.
#ifndef ROCATTACH_USERSPACE_SERVICE_METRICS_SETUP_H_
#define ROCATTACH_USERSPACE_SERVICE_METRICS_SETUP_H_

#include <memory>

#include "absl/status/status.h"
#include "userspace/record/recorder.h"
#include "userspace/service/service_metrics.h"
#include "userspace/service/session_service.h"
#include "userspace/service/watcher_observer.h"
#include "userspace/service/watcher_options.h"

namespace rocattach {

// Returns null if nothing reads metrics.
std::unique_ptr<ServiceMetrics> MakeServiceMetrics(const WatcherOptions& options);

// Serves and pushes metrics from now on. `observer` may be null. An error if the
// service cannot listen, or cannot push at all.
absl::Status PublishMetrics(const WatcherOptions& options, Recorder* recorder,
                            WatcherObserver* observer, ServiceMetrics* metrics);

// Measures the counters that the options name, from now on, in a session of its own.
absl::Status CountForMetrics(const WatcherOptions& options, SessionService* sessions,
                             ServiceMetrics* metrics);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_METRICS_SETUP_H_
