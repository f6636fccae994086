#include "userspace/cli/options/telemetry_options.h"

#include <stdlib.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "userspace/attribution/kube_names.h"
#include "userspace/attribution/kubelet_client.h"
#include "userspace/base/status_macros.h"
#include "userspace/cli/options/help_groups.h"

namespace rocattach {
namespace {

std::string EnvironmentVariable(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

uint64_t ToMsec(double seconds) {
  return static_cast<uint64_t>(std::llround(seconds * 1000));
}

absl::Status InterpretProfilePush(WatchArguments* args) {
  if (args->profile_push.empty()) return absl::OkStatus();
  auto settings = MakeProfilePushSettings(
      args->profile_push, ToMsec(args->profile_push_seconds), EnvironmentVariable);
  if (!settings.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--profile-push: ", settings.status().message()));
  }
  args->watcher.profile_push = *std::move(settings);
  return absl::OkStatus();
}

absl::Status InterpretPush(WatchArguments* args) {
  if (args->otlp_endpoint.empty()) return absl::OkStatus();
  auto settings = MakeOtlpSettings(
      args->otlp_endpoint, ToMsec(args->otlp_interval_seconds), EnvironmentVariable);
  if (!settings.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--otlp-endpoint: ", settings.status().message()));
  }
  args->watcher.otlp = *std::move(settings);
  return absl::OkStatus();
}

}  // namespace

void AddMetrics(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  app->add_option("--metrics-listen", args->metrics_listen,
                  "With --auto: serve metrics for Prometheus at this address, and "
                  "/healthz and /readyz; a port alone is one of 127.0.0.1")
      ->type_name("ADDR:PORT");
  app->add_option(
         "--metrics-host", args->watcher.metrics_hosts,
         "Other names by which the metrics are asked for; repeatable (default: "
         "those of the machine, its addresses and localhost)")
      ->type_name("NAME")
      ->expected(1)
      ->take_all();
  CLI::Option* otlp =
      app->add_option("--otlp-endpoint", args->otlp_endpoint,
                      "With --auto: push metrics to this OpenTelemetry collector "
                      "(OTLP over HTTP; /v1/metrics is added). OTEL_EXPORTER_OTLP_* "
                      "set headers, timeout and certificates")
          ->type_name("URL");
  app->add_option("--otlp-interval", args->otlp_interval_seconds,
                  "Seconds between two pushes (default: 60, or "
                  "$OTEL_METRIC_EXPORT_INTERVAL)")
      ->type_name("SECONDS")
      ->needs(otlp)
      ->check(CLI::Range(0.1, 86400.0));
  CLI::Option* profiles =
      app->add_option("--profile-push", args->profile_push,
                      "With --auto: push profiles of kernels to a server, parca=URL or "
                      "pyroscope=URL. ROCATTACH_PROFILE_PUSH_HEADERS sets headers")
          ->type_name("TARGET")
          ->needs(app->get_option("--auto"));
  app->add_option("--profile-push-interval", args->profile_push_seconds,
                  "Seconds between two profiles")
      ->type_name("SECONDS")
      ->needs(profiles)
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app->add_option("--metrics-kernels", args->watcher.metrics.named_kernels,
                  "Kernels of each process with metrics of their own, the busiest; the "
                  "rest is 'other'. 0: none")
      ->check(CLI::Range(0, 100))
      ->capture_default_str();
  CLI::Option* counters =
      app->add_option(
             "--metrics-counters", args->watcher.metrics_counters,
             "Hardware counters of whole GPUs as metrics, separated by commas: "
             "counted for one second out of ten, and not while a session or "
             "another profiler needs the GPU's counters")
          ->delimiter(',')
          ->allow_extra_args(false)
          ->type_name("COUNTER");
  app->add_option("--metrics-counters-interval", args->metrics_counters_seconds,
                  "Seconds from one of these measurements to the next")
      ->type_name("SECONDS")
      ->needs(counters)
      ->check(CLI::Range(2.0, 86400.0))
      ->capture_default_str();
  app->add_option("--metrics-series", args->watcher.metrics.most_series,
                  "Series of processes and kernels that are served; further ones are "
                  "counted")
      ->check(CLI::Range(100, 1'000'000))
      ->capture_default_str();
}

// Options for the sources of pod and job names.
void AddWorkloads(CLI::App* app, WatchArguments* args) {
  StartGroup(app, kOutputGroup);
  WorkloadSources& sources = args->watcher.workload_sources;
  app->add_option("--node-name", sources.node,
                  "What this machine is called in its cluster (default: $NODE_NAME, or "
                  "the host's name where there is a kubelet)")
      ->type_name("NAME")
      ->check([](const std::string& name) {
        return IsKubeName(name) ? "" : "is no name of a node in Kubernetes";
      });
  app->add_option("--pod-logs", sources.pod_logs,
                  "Directory with the kubelet's directories pods and containers, whose "
                  "names tell the names of pods")
      ->type_name("DIR")
      ->capture_default_str();
  app->add_option("--pod-resources", args->pod_resources,
                  absl::StrCat("Socket of the kubelet's pod-resources API (default: ",
                               KubeletClient::kDefaultSocket, ", if it is there)"))
      ->type_name("SOCKET");
  app->add_option("--slurm-mapping", sources.slurm_mapping,
                  "Directory in which Slurm's prolog writes which jobs have which GPU: "
                  "one file for each GPU")
      ->type_name("DIR");
}

absl::Status InterpretMetrics(const CLI::App& app, WatchArguments* args) {
  if (args->metrics_listen.empty() && args->otlp_endpoint.empty() &&
      args->profile_push.empty()) {
    for (const char* option :
         {"--metrics-counters", "--metrics-kernels", "--metrics-series"}) {
      // rocattach's commands do not have these options.
      const CLI::Option* known = app.get_option_no_throw(option);
      if (known == nullptr || known->count() == 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          option, " needs --metrics-listen, --otlp-endpoint or --profile-push"));
    }
  }
  RETURN_IF_ERROR(InterpretPush(args));
  RETURN_IF_ERROR(InterpretProfilePush(args));
  if (args->metrics_listen.empty()) return absl::OkStatus();
  auto address = ParseListenAddress(args->metrics_listen);
  if (!address.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("--metrics-listen: ", address.status().message()));
  }
  args->watcher.metrics_listen = *address;
  return absl::OkStatus();
}

void InterpretWorkloads(WatchArguments* args) {
  if (!args->pod_resources.empty()) {
    args->watcher.workload_sources.pod_resources = args->pod_resources;
    args->watcher.workload_sources.pod_resources_optional = false;
  }
  // The directory of the topology also has the files of processes.
  const absl::string_view topology = args->watcher.sdk_search.topology;
  if (absl::string_view kfd = topology; absl::ConsumeSuffix(&kfd, "/topology")) {
    args->watcher.gpu_roots.kfd = std::string(kfd);
  }
}

}  // namespace rocattach
