#include "userspace/push/otlp_metrics.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "userspace/base/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/version.h"
#include "userspace/telemetry/metric_families.h"
#include "userspace/telemetry/metric_labels.h"

namespace rocattach {
namespace {

using Attributes = std::vector<std::pair<std::string, std::string>>;
using google::protobuf::RepeatedPtrField;
using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;

// Labels of processes, and the attributes of resources with the same meaning.
constexpr std::pair<absl::string_view, absl::string_view> kResourceLabels[] = {
    {"comm", "process.executable.name"},
    {"namespace", "k8s.namespace.name"},
    {"pod", "k8s.pod.name"},
    {"container", "k8s.container.name"},
    {"job_id", "slurm.job.id"},
    {"pid", "process.pid"}};

// Families with the same content as resources and attributes have here.
constexpr absl::string_view kLeftOut[] = {
    "rocattach_target_info", "rocattach_process_info", "rocattach_kernel_info",
    "rocattach_build_info", "process_start_time_seconds"};

// Metrics of the service itself, which have names by OpenTelemetry's conventions.
constexpr std::pair<absl::string_view, absl::string_view> kRenamed[] = {
    {"process_cpu_seconds_total", "process.cpu.time"},
    {"process_resident_memory_bytes", "process.memory.usage"}};

struct Unit {
  absl::string_view suffix, unit;
};
constexpr Unit kUnits[] = {{"_seconds", "s"}, {"_bytes", "By"}, {"_ratio", "1"}};

void Add(absl::string_view key, const std::string& value,
         RepeatedPtrField<otlp::KeyValue>* attributes) {
  if (value.empty()) return;
  otlp::KeyValue* attribute = attributes->Add();
  attribute->set_key(std::string(key));
  attribute->mutable_value()->set_string_value(value);
}

void AddNumber(absl::string_view key, int64_t value,
               RepeatedPtrField<otlp::KeyValue>* attributes) {
  otlp::KeyValue* attribute = attributes->Add();
  attribute->set_key(std::string(key));
  attribute->mutable_value()->set_int_value(value);
}

const std::string* FindLabel(const ClientMetric& metric, absl::string_view name) {
  for (const ClientMetric::Label& label : metric.label) {
    if (label.name == name) return &label.value;
  }
  return nullptr;
}

template <typename Table>
absl::string_view Lookup(const Table& table, absl::string_view name) {
  for (const auto& [key, value] : table) {
    if (key == name) return value;
  }
  return "";
}

class OtlpBuilder {
 public:
  OtlpBuilder(const NodeSnapshot& node, const OtlpService& service,
              const ClockSnapshot& now, Demangler* demangler)
      : service_(service), time_ns_(WallNs(node.boot_ns, now)) {
    for (const ProcessSnapshot& process : node.processes) {
      processes_[absl::StrCat(process.pid)] = &process;
      for (const KernelSnapshot& kernel : process.kernels) {
        std::string& name = kernel_names_[KernelId(kernel.id)];
        if (name.empty()) name = ShortName(kernel.name, demangler);
      }
    }
    for (const ProcessUseSnapshot& use : node.uses) {
      uses_[absl::StrCat(use.id.pid)] = &use;
    }
    // The service comes first, even if no family belongs to it.
    Resource* own = NewResource("");
    for (const auto& [key, value] : service_.service) {
      Add(key, value, own->message->mutable_resource()->mutable_attributes());
    }
    own->start_ns = NotLater(service_.start_wall_ns);
  }

  void AddFamily(const MetricFamily& family) {
    for (absl::string_view name : kLeftOut) {
      if (family.name == name) return;
    }
    ++family_;
    for (const ClientMetric& metric : family.metric) {
      Resource* resource = ResourceOf(metric);
      AddPoint(family, metric, *resource, MetricOf(family, resource));
    }
  }

  // Adds devices, by OpenTelemetry's conventions for hardware.
  void AddDevices(const NodeSnapshot& node) {
    AddDeviceUtilization(node);
    AddDeviceMemory(node, "hw.gpu.memory.limit", "Memory of the GPU.",
                    &GpuSnapshot::vram_bytes);
    AddDeviceMemory(node, "hw.gpu.memory.usage", "Memory of the GPU that is in use.",
                    &GpuSnapshot::vram_used_bytes);
  }

  otlp::ExportMetricsServiceRequest Finish() { return std::move(request_); }

 private:
  struct Resource {
    otlp::ResourceMetrics* message = nullptr;
    uint64_t start_ns = 0;  // wall time from which on it is counted
    uint64_t family = 0;    // number of its last metric's family
  };

  static void DescribeDevice(const std::string& key, const GpuSnapshot& gpu,
                             RepeatedPtrField<otlp::KeyValue>* attributes) {
    Add("hw.id", key, attributes);
    Add("hw.name", gpu.gpu.pci, attributes);
    Add("hw.vendor", "AMD", attributes);
    Add("hw.model",
        gpu.gpu.product_name.empty() ? gpu.gpu.architecture : gpu.gpu.product_name,
        attributes);
    Add("hw.serial_number", gpu.serial, attributes);
    Add("hw.driver_version", gpu.driver, attributes);
  }

  void AddDeviceUtilization(const NodeSnapshot& node) {
    otlp::Metric* metric = nullptr;
    for (const auto& [key, gpu] : node.gpus) {
      if (!gpu.busy_percent.has_value()) continue;
      if (metric == nullptr) {
        metric = resources_.at("").message->mutable_scope_metrics(0)->add_metrics();
        metric->set_name("hw.gpu.utilization");
        metric->set_description("How busy the GPU is, as its firmware says.");
        metric->set_unit("1");
      }
      otlp::NumberDataPoint* point = metric->mutable_gauge()->add_data_points();
      point->set_time_unix_nano(time_ns_);
      point->set_as_double(static_cast<double>(*gpu.busy_percent) / 100);
      DescribeDevice(key, gpu, point->mutable_attributes());
      Add("hw.gpu.task", "general", point->mutable_attributes());
    }
  }

  void AddDeviceMemory(const NodeSnapshot& node, const char* name,
                       const char* description,
                       std::optional<uint64_t> GpuSnapshot::*bytes) {
    const Resource& service = resources_.at("");
    otlp::Metric* metric = nullptr;
    for (const auto& [key, gpu] : node.gpus) {
      if (!(gpu.*bytes).has_value()) continue;
      if (metric == nullptr) {
        metric = service.message->mutable_scope_metrics(0)->add_metrics();
        metric->set_name(name);
        metric->set_description(description);
        metric->set_unit("By");
        metric->mutable_sum()->set_aggregation_temporality(
            otlp::AGGREGATION_TEMPORALITY_CUMULATIVE);
      }
      otlp::NumberDataPoint* point = metric->mutable_sum()->add_data_points();
      point->set_start_time_unix_nano(service.start_ns);
      point->set_time_unix_nano(time_ns_);
      point->set_as_int(static_cast<int64_t>(*(gpu.*bytes)));
      DescribeDevice(key, gpu, point->mutable_attributes());
    }
  }

  // The wall time of `boot_ns`, which is before `now`.
  static uint64_t WallNs(uint64_t boot_ns, const ClockSnapshot& now) {
    const uint64_t age_ns = now.boottime_ns - std::min(now.boottime_ns, boot_ns);
    return now.realtime_ns - std::min(now.realtime_ns, age_ns);
  }
  // A start, limited in case the clock has been set back to before it.
  uint64_t NotLater(uint64_t start_ns) const { return std::min(start_ns, time_ns_); }

  Resource* NewResource(const std::string& pid) {
    Resource* resource = &resources_[pid];
    resource->message = request_.add_resource_metrics();
    for (const auto& [key, value] : service_.host) {
      Add(key, value, resource->message->mutable_resource()->mutable_attributes());
    }
    otlp::ScopeMetrics* scope = resource->message->add_scope_metrics();
    scope->mutable_scope()->set_name("rocattach-watch");
    scope->mutable_scope()->set_version(ROCATTACH_VERSION);
    return resource;
  }

  Resource* ResourceOf(const ClientMetric& metric) {
    const std::string* pid = FindLabel(metric, "pid");
    if (pid == nullptr) return &resources_.at("");
    const auto found = resources_.find(*pid);
    if (found != resources_.end()) return &found->second;
    Resource* resource = NewResource(*pid);
    resource->start_ns = NotLater(service_.start_wall_ns);
    auto* attributes = resource->message->mutable_resource()->mutable_attributes();
    for (const ClientMetric::Label& label : metric.label) {
      const absl::string_view key = Lookup(kResourceLabels, label.name);
      int64_t number = 0;
      if (label.name == "pid" && absl::SimpleAtoi(label.value, &number)) {
        AddNumber(key, number, attributes);
      } else if (!key.empty()) {
        Add(key, label.value, attributes);
      }
    }
    if (const auto known = processes_.find(*pid); known != processes_.end()) {
      const ProcessSnapshot& process = *known->second;
      Describe(process.workload, process.uid, attributes);
      DescribeStart(process.start_ns, process.start_wall_ns, resource, attributes);
    } else if (const auto use = uses_.find(*pid); use != uses_.end()) {
      const ProcessUseSnapshot& process = *use->second;
      Describe(process.workload, process.uid, attributes);
      const uint64_t start_ns = process.id.start_ticks * ClockTickNs();
      DescribeStart(start_ns, WallByService(start_ns), resource, attributes);
    }
    return resource;
  }

  // Adds attributes that are not labels of every series.
  void Describe(const WorkloadIdentity& workload, uint32_t uid,
                RepeatedPtrField<otlp::KeyValue>* attributes) {
    Add("process.executable.path", workload.executable, attributes);
    AddNumber("process.user.id", uid, attributes);
    Add("container.id", workload.container_id, attributes);
    Add("k8s.pod.uid", workload.pod_uid, attributes);
    Add("k8s.node.name", workload.node, attributes);
    Add("slurm.step.id", workload.slurm_step, attributes);
  }

  // Wall time by the clock at the service's start, so it is the same at each push.
  uint64_t WallByService(uint64_t boot_ns) const {
    if (boot_ns >= service_.start_ns) {
      return service_.start_wall_ns + (boot_ns - service_.start_ns);
    }
    const uint64_t before_ns = service_.start_ns - boot_ns;
    return service_.start_wall_ns - std::min(service_.start_wall_ns, before_ns);
  }

  // Adds the start of a process; `start_wall_ns` 0: not known.
  void DescribeStart(uint64_t start_ns, uint64_t start_wall_ns, Resource* resource,
                     RepeatedPtrField<otlp::KeyValue>* attributes) {
    if (start_wall_ns == 0) return;
    Add("process.creation.time", WallTimeText(start_wall_ns), attributes);
    // Nothing was counted before the process and the service had both started; wall
    // time cannot tell which of them started later.
    if (start_ns > service_.start_ns) resource->start_ns = NotLater(start_wall_ns);
  }

  // All points of a family and a resource belong to one metric.
  otlp::Metric* MetricOf(const MetricFamily& family, Resource* resource) {
    otlp::ScopeMetrics* scope = resource->message->mutable_scope_metrics(0);
    if (std::exchange(resource->family, family_) == family_) {
      return scope->mutable_metrics(scope->metrics_size() - 1);
    }
    otlp::Metric* metric = scope->add_metrics();
    metric->set_description(family.help);
    absl::string_view name = family.name;
    if (family.type == MetricType::Counter) name = absl::StripSuffix(name, "_total");
    // Units stay part of names: without them some names would be equal.
    for (const Unit& unit : kUnits) {
      if (absl::EndsWith(name, unit.suffix)) metric->set_unit(std::string(unit.unit));
    }
    const absl::string_view renamed = Lookup(kRenamed, family.name);
    metric->set_name(std::string(renamed.empty() ? name : renamed));
    return metric;
  }

  void AddPoint(const MetricFamily& family, const ClientMetric& from,
                const Resource& resource, otlp::Metric* metric) {
    switch (family.type) {
      case MetricType::Histogram:
        metric->mutable_histogram()->set_aggregation_temporality(
            otlp::AGGREGATION_TEMPORALITY_CUMULATIVE);
        AddHistogram(from, resource, metric->mutable_histogram()->add_data_points());
        return;
      case MetricType::Counter: {
        otlp::Sum* sum = metric->mutable_sum();
        sum->set_aggregation_temporality(otlp::AGGREGATION_TEMPORALITY_CUMULATIVE);
        sum->set_is_monotonic(true);
        otlp::NumberDataPoint* point = sum->add_data_points();
        point->set_start_time_unix_nano(resource.start_ns);
        AddNumberPoint(from, from.counter.value, point);
        return;
      }
      default:
        AddNumberPoint(from, from.gauge.value,
                       metric->mutable_gauge()->add_data_points());
    }
  }

  void AddNumberPoint(const ClientMetric& from, double value,
                      otlp::NumberDataPoint* point) {
    point->set_time_unix_nano(time_ns_);
    point->set_as_double(value);
    AddAttributes(from, point->mutable_attributes());
  }

  void AddHistogram(const ClientMetric& from, const Resource& resource,
                    otlp::HistogramDataPoint* point) {
    point->set_start_time_unix_nano(resource.start_ns);
    point->set_time_unix_nano(time_ns_);
    point->set_count(from.histogram.sample_count);
    point->set_sum(from.histogram.sample_sum);
    uint64_t below = 0;  // Prometheus's buckets contain all smaller ones
    for (const ClientMetric::Bucket& bucket : from.histogram.bucket) {
      point->add_bucket_counts(bucket.cumulative_count - below);
      point->add_explicit_bounds(bucket.upper_bound);
      below = bucket.cumulative_count;
    }
    point->add_bucket_counts(from.histogram.sample_count - below);
    AddAttributes(from, point->mutable_attributes());
  }

  // Adds all labels that are not attributes of the resource.
  void AddAttributes(const ClientMetric& from,
                     RepeatedPtrField<otlp::KeyValue>* attributes) {
    const bool of_process = FindLabel(from, "pid") != nullptr;
    for (const ClientMetric::Label& label : from.label) {
      if (of_process && !Lookup(kResourceLabels, label.name).empty()) continue;
      Add(label.name, label.value, attributes);
      if (label.name != "kernel") continue;
      if (const auto name = kernel_names_.find(label.value);
          name != kernel_names_.end()) {
        Add("kernel_name", name->second, attributes);
      }
    }
  }

  const OtlpService& service_;
  const uint64_t time_ns_;
  otlp::ExportMetricsServiceRequest request_;
  std::map<std::string, Resource> resources_;  // by pid; "": the service
  std::map<std::string, const ProcessSnapshot*> processes_;
  std::map<std::string, const ProcessUseSnapshot*> uses_;
  std::map<std::string, std::string> kernel_names_;  // by label value
  uint64_t family_ = 0;
};

}  // namespace

OtlpService DescribeOtlpService(const Attributes& attributes,
                                const ClockSnapshot& now) {
  OtlpService service;
  service.start_ns = now.boottime_ns;
  service.start_wall_ns = now.realtime_ns;
  utsname machine = {};
  (void)uname(&machine);
  service.host = {{"host.name", machine.nodename}, {"os.type", "linux"}};
  if (auto id = ReadFile("/etc/machine-id", 64); id.ok()) {
    service.host.emplace_back("host.id", absl::StripAsciiWhitespace(*id));
  }
  service.service = {{"service.name", "rocattach-watch"},
                     {"service.version", ROCATTACH_VERSION},
                     {"service.instance.id",
                      absl::StrCat(absl::string_view(machine.nodename), "-", getpid(),
                                   "-", now.realtime_ns / 1'000'000)}};
  for (const auto& [key, value] : attributes) {
    Attributes& list =
        absl::StartsWith(key, "service.") ? service.service : service.host;
    std::erase_if(list, [&name = key](const auto& pair) { return pair.first == name; });
    list.emplace_back(key, value);
  }
  return service;
}

otlp::ExportMetricsServiceRequest OtlpMetrics(const NodeSnapshot& snapshot,
                                              const SelfUsage& self,
                                              const OtlpService& service,
                                              const ClockSnapshot& now,
                                              Demangler* demangler) {
  OtlpBuilder builder(snapshot, service, now, demangler);
  EmitFamilies(snapshot, self, demangler,
               [&](const MetricFamily& family) { builder.AddFamily(family); });
  builder.AddDevices(snapshot);
  return builder.Finish();
}

}  // namespace rocattach
