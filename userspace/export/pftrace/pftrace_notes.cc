#include "userspace/export/pftrace/pftrace_notes.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"
#include "userspace/stream/losses.h"
#include "userspace/stream/merged_clock.h"

namespace rocattach {

std::string VerdictText(const v1::WindowEvent& window) {
  std::string text;
  switch (window.state()) {
    case v1::WINDOW_STATE_ATTACHED:
      text = "attached";
      break;
    case v1::WINDOW_STATE_PASSED:
      text = "passed";
      break;
    case v1::WINDOW_STATE_REFUSED:
      text = "refused";
      break;
    case v1::WINDOW_STATE_MISSED:
      text = "missed";
      break;
    default:
      text = "attach window";
      break;
  }
  if (!window.detail().empty()) absl::StrAppend(&text, ": ", window.detail());
  return text;
}

std::string LossesText(const v1::LossAccount& account) {
  std::string lost = LossText(account);
  if (!account.not_believable().empty()) {
    absl::StrAppend(&lost, lost.empty() ? "" : ", ",
                    "an unknown number: ", account.not_believable());
  }
  if (!account.unseen_work().empty()) {
    absl::StrAppend(&lost, lost.empty() ? "" : ", ",
                    "work that was not seen: ", account.unseen_work());
  }
  return lost.empty() ? "" : absl::StrCat("lost: ", lost);
}

std::string AlignmentText(const v1::StreamHeader& header, const Alignment& alignment) {
  std::string recorded = absl::StrCat(
      "recorded on ", header.hostname().empty() ? "another machine" : header.hostname(),
      ": times are aligned by the machines' time of day");
  if (alignment.offset_ns != 0) return recorded;
  const std::optional<MergedClock> merged = MergedClockOf(header);
  if (!merged.has_value() || merged->offset_ns == 0) return "";
  return absl::StrCat(recorded, ", at most ", HumanDuration(merged->error_ns),
                      " wrong");
}

}  // namespace rocattach
