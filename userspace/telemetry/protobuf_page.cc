#include "userspace/telemetry/protobuf_page.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "schemas/export/prometheus_client.pb.h"

namespace rocattach {
namespace {

namespace wire = prometheus_client;

// Number of the first bucket of schema 0, in which bucket n ends at 2^n.
constexpr int kFirstNumber = PowerHistogram::kLowest + 1;

void FillNative(const PowerHistogram& from, wire::Histogram* to) {
  to->set_schema(0);
  // Also distinguishes an empty native histogram from a missing one.
  to->set_zero_threshold(std::ldexp(1, PowerHistogram::kLowest));
  to->set_zero_count(from.In(PowerHistogram::kLowest));
  int next = 0;  // the number that a span without a gap would begin with
  wire::BucketSpan* span = nullptr;
  int64_t before = 0;
  for (int number = kFirstNumber; number <= PowerHistogram::kHighest; ++number) {
    const auto count = static_cast<int64_t>(from.In(number));
    if (count == 0) continue;
    if (span == nullptr || number != next) {
      span = to->add_positive_span();
      span->set_offset(number - next);
    }
    span->set_length(span->length() + 1);
    next = number + 1;
    to->add_positive_delta(count - before);
    before = count;
  }
}

void FillHistogram(const ::prometheus::ClientMetric::Histogram& from,
                   wire::Histogram* to) {
  to->set_sample_count(from.sample_count);
  to->set_sample_sum(from.sample_sum);
  for (const ::prometheus::ClientMetric::Bucket& bucket : from.bucket) {
    wire::Bucket* added = to->add_bucket();
    added->set_cumulative_count(bucket.cumulative_count);
    added->set_upper_bound(bucket.upper_bound);
  }
}

void FillMetric(const ExposedFamily& family, size_t index, wire::Metric* to) {
  const ::prometheus::ClientMetric& from = family.metric[index];
  for (const ::prometheus::ClientMetric::Label& label : from.label) {
    wire::LabelPair* added = to->add_label();
    added->set_name(label.name);
    added->set_value(label.value);
  }
  switch (family.type) {
    case ::prometheus::MetricType::Counter:
      to->mutable_counter()->set_value(from.counter.value);
      return;
    case ::prometheus::MetricType::Histogram:
      FillHistogram(from.histogram, to->mutable_histogram());
      if (index < family.native.size()) {
        FillNative(family.native[index], to->mutable_histogram());
      }
      return;
    default:
      to->mutable_gauge()->set_value(from.gauge.value);
  }
}

wire::MetricType TypeOf(::prometheus::MetricType type) {
  switch (type) {
    case ::prometheus::MetricType::Counter:
      return wire::COUNTER;
    case ::prometheus::MetricType::Histogram:
      return wire::HISTOGRAM;
    default:
      return wire::GAUGE;
  }
}

// A media range of the header.
struct Range {
  absl::string_view type;
  absl::string_view proto, encoding;
  double quality = 1;
};

absl::string_view Unquoted(absl::string_view value) {
  value = absl::StripAsciiWhitespace(value);
  if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
    return value.substr(1, value.size() - 2);
  }
  return value;
}

Range ParseRange(absl::string_view text) {
  Range range;
  for (absl::string_view part : absl::StrSplit(text, ';')) {
    part = absl::StripAsciiWhitespace(part);
    if (range.type.data() == nullptr) {
      range.type = part;
      continue;
    }
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::string_view name = absl::StripAsciiWhitespace(pair.first);
    const absl::string_view value = Unquoted(pair.second);
    if (absl::EqualsIgnoreCase(name, "proto")) range.proto = value;
    if (absl::EqualsIgnoreCase(name, "encoding")) range.encoding = value;
    if (!absl::EqualsIgnoreCase(name, "q")) continue;
    // An invalid quality, also one that is not a number, counts as 0.
    const bool valid = absl::SimpleAtod(value, &range.quality) && range.quality >= 0 &&
                       range.quality <= 1;
    if (!valid) range.quality = 0;
  }
  return range;
}

bool IsProtobuf(const Range& range) {
  return absl::EqualsIgnoreCase(range.type, "application/vnd.google.protobuf") &&
         range.proto == "io.prometheus.client.MetricFamily" &&
         range.encoding == "delimited";
}

}  // namespace

void AppendDelimited(const ExposedFamily& family, std::string* page) {
  wire::MetricFamily message;
  message.set_name(family.name);
  message.set_help(family.help);
  message.set_type(TypeOf(family.type));
  for (size_t i = 0; i < family.metric.size(); ++i) {
    FillMetric(family, i, message.add_metric());
  }
  google::protobuf::io::StringOutputStream stream(page);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.WriteVarint32(static_cast<uint32_t>(message.ByteSizeLong()));
  message.SerializeWithCachedSizes(&coded);
}

bool PrefersPrometheusProtobuf(absl::string_view accept) {
  double protobuf = 0, text = 0;
  for (const absl::string_view part : absl::StrSplit(accept, ',')) {
    const Range range = ParseRange(part);
    if (IsProtobuf(range)) protobuf = std::max(protobuf, range.quality);
    // A client that accepts everything accepts text.
    if (absl::EqualsIgnoreCase(range.type, "text/plain") || range.type == "text/*" ||
        range.type == "*/*") {
      text = std::max(text, range.quality);
    }
  }
  return protobuf > text;
}

}  // namespace rocattach
