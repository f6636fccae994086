// A family of metrics under construction.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_GROWING_FAMILY_H_
#define ROCATTACH_USERSPACE_TELEMETRY_GROWING_FAMILY_H_

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <utility>

#include "userspace/telemetry/metric_families.h"
#include "userspace/telemetry/metric_labels.h"

namespace rocattach {

// A family that grows by samples, and goes to the sink if it has any.
class Family {
 public:
  Family(const char* name, prometheus::MetricType type, const char* help,
         FamilySink sink)
      : sink_(sink) {
    family_.name = name;
    family_.type = type;
    family_.help = help;
  }
  ~Family() {
    if (!family_.metric.empty()) sink_(std::move(family_));
  }
  Family(const Family&) = delete;
  Family& operator=(const Family&) = delete;

  void Add(MetricLabels labels, double value) {
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    metric.counter.value = metric.gauge.value = value;
  }
  // `native`: the histogram that the buckets were made from.
  void AddHistogram(MetricLabels labels, prometheus::ClientMetric::Histogram histogram,
                    const PowerHistogram& native) {
    prometheus::ClientMetric& metric = family_.metric.emplace_back();
    metric.label = std::move(labels);
    metric.histogram = std::move(histogram);
    family_.native.push_back(native);
  }

 private:
  const FamilySink sink_;
  ExposedFamily family_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_GROWING_FAMILY_H_
