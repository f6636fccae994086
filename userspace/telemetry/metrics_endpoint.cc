#include "userspace/telemetry/metrics_endpoint.h"

#include <prometheus/text_serializer.h>

#include <sstream>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/json.h"
#include "userspace/base/status_macros.h"
#include "userspace/telemetry/metric_families.h"
#include "userspace/telemetry/metric_labels.h"
#include "userspace/telemetry/protobuf_page.h"
#include "userspace/telemetry/snapshot_json.h"

namespace rocattach {
namespace {

// Minimum age of a page before it is made again.
constexpr uint64_t kPageNs = 200'000'000;
constexpr char kPrometheusText[] = "text/plain; version=0.0.4; charset=utf-8";
constexpr char kJson[] = "application/json";
constexpr char kIndex[] =
    "rocattach-watch\n"
    "  /metrics    for Prometheus\n"
    "  /processes  totals of all processes, as JSON; 'rocattach top' shows them\n"
    "  /kernels    full names of the kernels that metrics name by their ids, as JSON\n"
    "  /healthz    200 while the service works\n"
    "  /readyz     200 while new processes are seen\n";

HttpResponse StatusPage(const absl::Status& status) {
  return status.ok() ? HttpResponse::Text(200, "ok\n")
                     : HttpResponse::Text(503, absl::StrCat(status.message(), "\n"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsEndpoint>> MetricsEndpoint::Start(
    const ListenAddress& address, MetricsSource* source, HttpHosts hosts) {
  auto endpoint =
      std::unique_ptr<MetricsEndpoint>(new MetricsEndpoint(source, std::move(hosts)));
  ASSIGN_OR_RETURN(endpoint->server_, HttpServer::Start(
                                          address,
                                          [raw = endpoint.get()](const HttpRequest& r) {
                                            return raw->Answer(r);
                                          },
                                          &endpoint->counts_));
  return endpoint;
}

HttpResponse MetricsEndpoint::Answer(const HttpRequest& request) {
  // Browsers always send a host, so a request without one is accepted.
  if (request.host.has_value() && !hosts_.Allows(*request.host)) {
    return HttpResponse::Text(
        421,
        "rocattach-watch does not answer to this name: use an address or the name of "
        "the machine, or start it with --metrics-host NAME.\n");
  }
  if (request.path == "/metrics" && PrefersPrometheusProtobuf(request.accept)) {
    return Cached(&protobuf_, kPrometheusProtobuf, MetricsConsumer::kScrape,
                  [this](const NodeSnapshot& node) { return MetricsProtobuf(node); });
  }
  if (request.path == "/metrics") {
    return Cached(&metrics_, kPrometheusText, MetricsConsumer::kScrape,
                  [this](const NodeSnapshot& node) { return MetricsText(node); });
  }
  if (request.path == "/processes") {
    return Cached(&processes_, kJson, MetricsConsumer::kViewer,
                  [this](const NodeSnapshot& node) {
                    return SnapshotJson(node, demangler_.get()) + "\n";
                  });
  }
  if (request.path == "/kernels") {
    return Cached(&kernels_, kJson, MetricsConsumer::kViewer,
                  [this](const NodeSnapshot& node) { return KernelsJson(node); });
  }
  if (request.path == "/healthz") return StatusPage(source_->CheckAlive());
  if (request.path == "/readyz") return StatusPage(source_->CheckReady());
  if (request.path == "/") return HttpResponse::Text(200, kIndex);
  return HttpResponse::Text(404, absl::StrCat("There is no such page.\n\n", kIndex));
}

HttpResponse MetricsEndpoint::Cached(
    Page* page, const char* content_type, MetricsConsumer consumer,
    const std::function<std::string(const NodeSnapshot&)>& make) {
  const uint64_t now_ns = ClockNs(CLOCK_MONOTONIC);
  if (page->body == nullptr || now_ns >= page->made_ns + kPageNs) {
    auto snapshot = source_->CaptureSnapshot(consumer);
    if (!snapshot.ok()) return StatusPage(snapshot.status());
    page->body = std::make_shared<const std::string>(make(*snapshot));
    page->made_ns = now_ns;
    // Slow names use up the time limit of the demangler for all other names.
    if (demangler_->given_up() > 0) demangler_ = std::make_unique<Demangler>();
  }
  HttpResponse response;
  response.content_type = content_type;
  response.body = page->body;
  return response;
}

SelfUsage MetricsEndpoint::OwnUsage() const {
  SelfUsage self = ReadSelfUsage();
  self.requests = counts_.requests.load(std::memory_order_relaxed);
  self.connections_refused = counts_.refused.load(std::memory_order_relaxed);
  return self;
}

std::string MetricsEndpoint::MetricsProtobuf(const NodeSnapshot& snapshot) {
  std::string page;
  EmitFamilies(snapshot, OwnUsage(), demangler_.get(),
               [&](const ExposedFamily& family) { AppendDelimited(family, &page); });
  return page;
}

std::string MetricsEndpoint::MetricsText(const NodeSnapshot& snapshot) {
  std::ostringstream text;
  const prometheus::TextSerializer serializer;
  std::vector<prometheus::MetricFamily> one(1);
  EmitFamilies(snapshot, OwnUsage(), demangler_.get(), [&](ExposedFamily family) {
    one[0] = std::move(family);
    serializer.Serialize(text, one);
  });
  return std::move(text).str();
}

std::string MetricsEndpoint::KernelsJson(const NodeSnapshot& snapshot) {
  auto kernels = Json::array();
  absl::flat_hash_set<uint64_t> seen;
  for (const ProcessSnapshot& process : snapshot.processes) {
    for (const KernelSnapshot& kernel : process.kernels) {
      if (!seen.insert(kernel.id).second) continue;
      kernels.push_back({{"id", KernelId(kernel.id)},
                         {"name", demangler_->Demangle(kernel.name)},
                         {"symbol", kernel.name}});
    }
  }
  return DumpJson(kernels) + "\n";
}

}  // namespace rocattach
