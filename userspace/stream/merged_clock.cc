#include "userspace/stream/merged_clock.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace rocattach {
namespace {

constexpr char kOffset[] = "--merged-clock-offset-ns=";
constexpr char kError[] = "--merged-clock-error-ns=";

}  // namespace

void AddMergedClock(const MergedClock& clock, v1::StreamHeader* header) {
  header->add_recorder_arguments(absl::StrCat(kOffset, clock.offset_ns));
  header->add_recorder_arguments(absl::StrCat(kError, clock.error_ns));
}

std::optional<MergedClock> MergedClockOf(const v1::StreamHeader& header) {
  uint64_t offset_ns = 0, error_ns = 0;  // unsigned: sums of any values wrap around
  bool merged = false;
  for (absl::string_view argument : header.recorder_arguments()) {
    int64_t offset = 0;
    uint64_t error = 0;
    if (absl::ConsumePrefix(&argument, kOffset)) {
      if (!absl::SimpleAtoi(argument, &offset)) continue;
      offset_ns += static_cast<uint64_t>(offset);
      merged = true;
    } else if (absl::ConsumePrefix(&argument, kError)) {
      if (absl::SimpleAtoi(argument, &error)) error_ns += error;
    }
  }
  if (!merged) return std::nullopt;
  return MergedClock{static_cast<int64_t>(offset_ns), error_ns};
}

}  // namespace rocattach
