#include "userspace/push/metrics_pusher.h"

#include <pthread.h>
#include <zlib.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/status_macros.h"
#include "userspace/record/dictionary.h"

namespace rocattach {
namespace {

// Of a collector's message, in ours.
constexpr size_t kMostMessageBytes = 200;

absl::StatusOr<std::string> Gzip(const std::string& bytes) {
  z_stream stream = {};
  // 16: with the header and trailer of gzip.
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("zlib: no memory");
  }
  std::string out(deflateBound(&stream, bytes.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) return absl::InternalError("zlib: deflate() failed");
  return out;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsPusher>> MetricsPusher::Start(
    const OtlpSettings& settings, MetricsSource* source, PushCounts* counts,
    PushStateFunction on_state, ClockFunction clock) {
  ASSIGN_OR_RETURN(std::unique_ptr<HttpPoster> poster,
                   HttpPoster::Create(settings.post));
  auto pusher = std::unique_ptr<MetricsPusher>(
      new MetricsPusher(settings, std::move(poster), source, counts,
                        std::move(on_state), std::move(clock)));
  RETURN_IF_ERROR(pusher->stop_.status());
  pusher->thread_ = std::thread([raw = pusher.get()] { raw->Run(); });
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
      on_state_(std::move(on_state)),
      clock_(std::move(clock)),
      service_(DescribeOtlpService(settings.attributes, clock_())),
      schedule_(ClockNs(CLOCK_REALTIME)) {}

MetricsPusher::~MetricsPusher() {
  stop_.Signal();
  if (thread_.joinable()) thread_.join();
}

void MetricsPusher::Run() {
  (void)pthread_setname_np(pthread_self(), "rwa-push");
  const uint64_t interval_ns = settings_.interval_msec * 1'000'000;
  uint64_t wait_ns = interval_ns;
  while (!stop_.WaitFor(wait_ns)) {
    const uint64_t begin_ns = ClockNs(CLOCK_MONOTONIC);
    std::optional<uint64_t> retry_after;
    const PushResult result = Push(settings_.timeout_msec, &stop_, &retry_after);
    wait_ns = interval_ns;
    if (result == PushResult::kRetry) {
      wait_ns = schedule_.NextDelayMsec(retry_after) * 1'000'000;
    } else {
      schedule_.Reset();
    }
    // The rate is one push an interval; a slow collector does not lower it.
    const uint64_t took_ns = ClockNs(CLOCK_MONOTONIC) - begin_ns;
    if (result != PushResult::kRetry) wait_ns -= std::min(took_ns, interval_ns / 2);
  }
  std::optional<uint64_t> unused;
  (void)Push(std::min(settings_.timeout_msec, kLastPushMsec), nullptr, &unused);
}

absl::StatusOr<std::string> MetricsPusher::Body() {
  ASSIGN_OR_RETURN(const NodeSnapshot snapshot, source_->Take(MetricsConsumer::kPush));
  const std::string body =
      OtlpMetrics(snapshot, ReadSelfUsage(), service_, clock_(), demangler_.get())
          .SerializeAsString();
  // Names that took too long use up the demangler's patience, also for others.
  if (demangler_->given_up() > 0) demangler_ = std::make_unique<Demangler>();
  return settings_.gzip ? Gzip(body) : body;
}

PushResult MetricsPusher::Push(uint64_t timeout_msec, const WakeEvent* stop,
                               std::optional<uint64_t>* retry_after_seconds) {
  auto body = Body();
  if (!body.ok()) {
    ++counts_->failed;
    Note(body.status());
    return PushResult::kRetry;
  }
  auto reply = poster_->Post(*body, timeout_msec, stop);
  // The push at the end of the service takes its place.
  if (absl::IsCancelled(reply.status())) return PushResult::kRetry;
  if (!reply.ok()) {
    ++counts_->failed;
    Note(reply.status());
    return PushResult::kRetry;
  }
  *retry_after_seconds = reply->retry_after_seconds;
  return Judge(*reply);
}

PushResult MetricsPusher::Judge(const HttpPostReply& reply) {
  const PushResult result = ResultOfHttpStatus(reply.status);
  if (result == PushResult::kAccepted) {
    ++counts_->accepted;
    otlp::ExportMetricsServiceResponse response;
    // An answer that is something else is not a refusal.
    if (response.ParseFromString(reply.body)) {
      const int64_t rejected = response.partial_success().rejected_data_points();
      if (rejected > 0) {
        counts_->rejected_points += static_cast<uint64_t>(rejected);
        Note(absl::FailedPreconditionError(
            absl::StrCat("the collector rejected ", rejected, " data points: ",
                         CleanText(response.partial_success().error_message().substr(
                             0, kMostMessageBytes)))));
        return result;
      }
    }
    Note(absl::OkStatus());
    return result;
  }
  ++counts_->failed;
  std::string text =
      absl::StrCat("POST ", PublicUrl(settings_.post.url),
                   ": the collector answered with status ", reply.status);
  if (reply.status == 401 || reply.status == 403) {
    absl::StrAppend(&text, "; OTEL_EXPORTER_OTLP_HEADERS holds what it asks for");
  } else if (reply.status == 404) {
    absl::StrAppend(&text, "; is this the port for OTLP over HTTP (usually 4318)?");
  }
  Note(absl::UnavailableError(text));
  return result;
}

void MetricsPusher::Note(const absl::Status& state) {
  if (failing_ == !state.ok()) return;
  failing_ = !state.ok();
  if (on_state_ != nullptr) on_state_(state);
}

}  // namespace rocattach
