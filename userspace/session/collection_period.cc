#include "userspace/session/collection_period.h"

#include <algorithm>
#include <limits>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

absl::StatusOr<uint64_t> ParseTime(absl::string_view text, absl::string_view unit) {
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0;
  if (digits == 0 || !absl::SimpleAtod(text.substr(0, digits), &number)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is not a time"));
  }
  if (digits < text.size()) unit = text.substr(digits);
  ASSIGN_OR_RETURN(const uint64_t unit_ns, UnitNs(unit));
  const double ns = number * static_cast<double>(unit_ns);
  if (!(ns <= static_cast<double>(kLongestTimeNs))) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", text, "\" is too long a time"));
  }
  return static_cast<uint64_t>(ns);
}

uint64_t Add(uint64_t a, uint64_t b) {
  return a > UINT64_MAX - b ? UINT64_MAX : a + b;
}

uint64_t Multiply(uint64_t a, uint64_t b) {
  return b != 0 && a > UINT64_MAX / b ? UINT64_MAX : a * b;
}

}  // namespace

absl::StatusOr<uint64_t> UnitNs(absl::string_view unit) {
  if (unit == "hour" || unit == "h") return 3'600'000'000'000u;
  if (unit == "min" || unit == "m") return 60'000'000'000u;
  if (unit == "sec" || unit == "s") return 1'000'000'000u;
  if (unit == "msec" || unit == "ms") return 1'000'000u;
  if (unit == "usec" || unit == "us") return 1'000u;
  if (unit == "nsec" || unit == "ns") return 1u;
  return absl::InvalidArgumentError(absl::StrCat(
      "unknown unit \"", unit, "\"; there are hour, min, sec, msec, usec and nsec"));
}

absl::StatusOr<CollectionPeriod> ParseCollectionPeriod(absl::string_view text,
                                                       absl::string_view unit) {
  auto error = [&](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat("collection period \"", text, "\": ", what));
  };
  const std::vector<absl::string_view> parts = absl::StrSplit(text, ':');
  if (parts.size() != 3) return error("expected delay:duration:repeat");
  CollectionPeriod period;
  auto delay = ParseTime(parts[0], unit);
  if (!delay.ok()) return error(delay.status().message());
  auto duration = ParseTime(parts[1], unit);
  if (!duration.ok()) return error(duration.status().message());
  if (!absl::SimpleAtoi(parts[2], &period.repeat)) {
    return error("the number of repetitions is not a number");
  }
  period.delay_ns = *delay;
  period.duration_ns = *duration;
  if (period.duration_ns == 0) return error("nothing would be collected");
  return period;
}

uint64_t CollectionSchedule::Begun(uint64_t elapsed_ns) const {
  if (periods_.empty()) return 1;
  uint64_t begin = 0, begun = 0;
  for (const CollectionPeriod& period : periods_) {
    const uint64_t cycle = Add(period.delay_ns, period.duration_ns);
    const uint64_t end =
        period.repeat == 0 ? UINT64_MAX : Add(begin, Multiply(cycle, period.repeat));
    if (elapsed_ns < end) {
      const uint64_t inside = elapsed_ns - begin;
      return begun + inside / cycle + (inside % cycle >= period.delay_ns ? 1 : 0);
    }
    begun = Add(begun, period.repeat);
    begin = end;
  }
  return begun;
}

CollectionSchedule::Step CollectionSchedule::At(uint64_t elapsed_ns) const {
  if (periods_.empty()) return {true, UINT64_MAX, false};
  uint64_t begin = 0;
  for (const CollectionPeriod& period : periods_) {
    const uint64_t cycle = Add(period.delay_ns, period.duration_ns);
    const uint64_t end =
        period.repeat == 0 ? UINT64_MAX : Add(begin, Multiply(cycle, period.repeat));
    if (elapsed_ns < end) {
      const uint64_t cycle_begin = begin + (elapsed_ns - begin) / cycle * cycle;
      const uint64_t collect_at = Add(cycle_begin, period.delay_ns);
      if (elapsed_ns < collect_at) return {false, collect_at, false};
      return {true, Add(cycle_begin, cycle), false};
    }
    begin = end;
  }
  return {false, UINT64_MAX, true};
}

uint64_t CollectionSchedule::CollectsUntil(uint64_t elapsed_ns) const {
  const Step step = At(elapsed_ns);
  if (!step.collect) return elapsed_ns;
  if (periods_.empty()) return UINT64_MAX;
  uint64_t begin = 0, until = elapsed_ns;
  for (const CollectionPeriod& period : periods_) {
    const uint64_t cycle = Add(period.delay_ns, period.duration_ns);
    const uint64_t end =
        period.repeat == 0 ? UINT64_MAX : Add(begin, Multiply(cycle, period.repeat));
    if (period.delay_ns == 0 && elapsed_ns < end) {
      until = end;  // one repetition follows the other
    } else if (elapsed_ns < end) {
      if (elapsed_ns < begin) return until;
      until = step.until_ns;
      if (until != end) return until;
    }
    begin = end;
  }
  return until;
}

}  // namespace rocattach
