#include "userspace/cli/watch/watch_words.h"

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"
#include "userspace/base/json.h"

namespace rocattach {

std::string WatchLossText(uint64_t dropped, uint64_t unseen) {
  std::string words;
  if (dropped > 0) absl::StrAppend(&words, ", ", HumanCount(dropped), " LOST");
  if (unseen > 0) absl::StrAppend(&words, ", ", HumanCount(unseen), " UNSEEN");
  return words;
}

Json SamplingJson(const SamplingLevel& level, const std::string& why) {
  const char* name = level.every()         ? "every"
                     : level.counts_only() ? "counts_only"
                                           : "sampled";
  return {{"event", "sampling"},
          {"level", name},
          {"divisor", level.divisor()},
          {"reason", why}};
}

std::string SamplingText(const SamplingLevel& level, const std::string& why) {
  if (level.every()) return absl::StrCat("every dispatch is recorded again: ", why);
  return absl::StrCat("over the budget, ",
                      level.counts_only() ? "dispatches are only counted"
                                          : absl::StrCat("recording ", level.Text()),
                      ": ", why);
}

}  // namespace rocattach
