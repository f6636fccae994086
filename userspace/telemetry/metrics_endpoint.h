// The service's pages: metrics for Prometheus, health, and data for `rocattach top`.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_METRICS_ENDPOINT_H_
#define ROCATTACH_USERSPACE_TELEMETRY_METRICS_ENDPOINT_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "userspace/base/demangler.h"
#include "userspace/telemetry/http_host.h"
#include "userspace/telemetry/http_server.h"
#include "userspace/telemetry/metrics_source.h"
#include "userspace/telemetry/self_usage.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

class MetricsEndpoint {
 public:
  // `source` must outlive the endpoint; its errors become status 503. Requests for
  // other hosts get status 421.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(
      const ListenAddress& address, MetricsSource* source,
      HttpHosts hosts = HttpHosts::OfThisMachine({}));

  const ListenAddress& address() const { return server_->address(); }
  HttpResponse Answer(const HttpRequest& request);
  // The text of a scrape. Runs on the endpoint's thread, like all of these.
  std::string MetricsText(const NodeSnapshot& snapshot);
  // The same as protobuf, with native histograms.
  std::string MetricsProtobuf(const NodeSnapshot& snapshot);

 private:
  // A page that is made at most once per kPageNs, however often it is requested.
  struct Page {
    uint64_t made_ns = 0;
    std::shared_ptr<const std::string> body;
  };

  MetricsEndpoint(MetricsSource* source, HttpHosts hosts)
      : source_(source), hosts_(std::move(hosts)) {}
  HttpResponse Cached(Page* page, const char* content_type, MetricsConsumer consumer,
                      const std::function<std::string(const NodeSnapshot&)>& make);
  std::string KernelsJson(const NodeSnapshot& snapshot);
  SelfUsage OwnUsage() const;

  MetricsSource* const source_;
  const HttpHosts hosts_;
  Page metrics_, protobuf_, processes_, kernels_;
  std::unique_ptr<Demangler> demangler_ = std::make_unique<Demangler>();
  HttpCounts counts_;
  std::unique_ptr<HttpServer> server_;  // its thread uses everything above
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_METRICS_ENDPOINT_H_
