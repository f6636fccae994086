#include "userspace/push/metrics_pusher.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/gzip.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/drain/dictionary.h"

namespace rocattach {
namespace {

// Limit on the part of a collector's message that ours contain.
constexpr size_t kMostMessageBytes = 200;

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPusher>> MetricsPusher::Start(
    const OtlpSettings& settings, MetricsSource* source, PushCounts* counts,
    PushStateFunction on_state, ClockFunction clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<HttpPoster> poster,
                   HttpPoster::Create(settings.post));
  auto pusher = std::unique_ptr<MetricsPusher>(
      new MetricsPusher(settings, std::move(poster), source, counts,
                        std::move(on_state), std::move(clock)));
  RETURN_IF_ERROR(
      pusher->loop_.Start([raw = pusher.get()](auto* a) { return raw->Push(a); }));
  return pusher;
}

MetricsPusher::MetricsPusher(const OtlpSettings& settings,
                             std::unique_ptr<HttpPoster> poster, MetricsSource* source,
                             PushCounts* counts, PushStateFunction on_state,
                             ClockFunction clock)
    : settings_(settings),
      poster_(std::move(poster)),
      source_(source),
      counts_(counts),
      clock_(std::move(clock)),
      service_(DescribeOtlpService(settings.attributes, clock_())),
      loop_({"rwa-push", settings.interval_msec, settings.timeout_msec}, counts,
            std::move(on_state)) {}

absl::StatusOr<std::string> MetricsPusher::Body() {
  ASSIGN_OR_RETURN(const NodeSnapshot snapshot,
                   source_->CaptureSnapshot(MetricsConsumer::kPush));
  const std::string body =
      OtlpMetrics(snapshot, ReadSelfUsage(), service_, clock_(), demangler_.get())
          .SerializeAsString();
  // Slow names use up the time limit of the demangler for all other names.
  if (demangler_->given_up() > 0) demangler_ = std::make_unique<Demangler>();
  return settings_.gzip ? Gzip(body, GzipEffort::kDefault) : body;
}

PushResult MetricsPusher::Push(PushAttempt* attempt) {
  const auto body = Body();
  if (!body.ok()) {
    loop_.CountFailed(body.status());
    return PushResult::kRetry;
  }
  const auto reply = loop_.Post(poster_.get(), *body, attempt);
  return reply.has_value() ? Judge(*reply) : PushResult::kRetry;
}

absl::Status MetricsPusher::CheckRejected(const HttpPostReply& reply) {
  otlp::ExportMetricsServiceResponse response;
  // A body that is not such a message is not a refusal.
  if (!response.ParseFromString(reply.body)) return absl::OkStatus();
  const int64_t rejected = response.partial_success().rejected_data_points();
  if (rejected <= 0) return absl::OkStatus();
  counts_->rejected_points += static_cast<uint64_t>(rejected);
  return absl::FailedPreconditionError(
      absl::StrCat("the collector rejected ", rejected, " data points: ",
                   CleanText(response.partial_success().error_message().substr(
                       0, kMostMessageBytes))));
}

PushResult MetricsPusher::Judge(const HttpPostReply& reply) {
  const PushResult result = ResultOfHttpStatus(reply.status);
  if (result == PushResult::kAccepted) {
    loop_.CountAccepted(CheckRejected(reply));
    return result;
  }
  std::string text =
      absl::StrCat("POST ", PublicUrl(settings_.post.url),
                   ": the collector answered with status ", reply.status);
  if (reply.status == 401 || reply.status == 403) {
    absl::StrAppend(&text, "; OTEL_EXPORTER_OTLP_HEADERS holds what it asks for");
  } else if (reply.status == 404) {
    absl::StrAppend(&text, "; is this the port for OTLP over HTTP (usually 4318)?");
  }
  loop_.CountFailed(absl::UnavailableError(text));
  return result;
}

}  // namespace rocattach
