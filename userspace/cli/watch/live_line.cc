#include "userspace/cli/watch/live_line.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "userspace/base/human.h"
#include "userspace/cli/watch/watch_words.h"

namespace rocattach {

std::string LiveLine::Text(const RunTotals& totals, uint64_t now_ns) {
  const double seconds =
      last_ns_ == 0 ? 0 : static_cast<double>(now_ns - last_ns_) / 1e9;
  // The total may decrease: a final account may have less than was drained.
  const uint64_t more =
      totals.dispatches - std::min(last_dispatches_, totals.dispatches);
  const double rate = seconds <= 0 ? 0 : static_cast<double>(more) / seconds;
  last_ns_ = now_ns;
  last_dispatches_ = totals.dispatches;
  std::string text = absl::StrCat(HumanCount(totals.running), " running, ",
                                  HumanCount(totals.attached), " attached | ",
                                  HumanCount(totals.dispatches), " dispatches (",
                                  HumanCount(static_cast<uint64_t>(rate)), "/s), ",
                                  HumanCount(totals.copies), " copies");
  if (totals.missed + totals.refused > 0) {
    absl::StrAppend(&text, " | ", HumanCount(totals.missed), " missed, ",
                    HumanCount(totals.refused), " refused");
  }
  if (totals.dropped + totals.unseen > 0) {
    const std::string losses = WatchLossText(totals.dropped, totals.unseen);
    absl::StrAppend(&text, " |", absl::string_view(losses).substr(1));
  }
  return text;
}

}  // namespace rocattach
