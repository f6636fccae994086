#include "userspace/cli/watch/watch_words.h"

#include "absl/strings/str_cat.h"
#include "userspace/base/human.h"

namespace rocattach {

std::string WatchLossText(uint64_t dropped, uint64_t unseen) {
  std::string words;
  if (dropped > 0) absl::StrAppend(&words, ", ", HumanCount(dropped), " LOST");
  if (unseen > 0) absl::StrAppend(&words, ", ", HumanCount(unseen), " UNSEEN");
  return words;
}

std::string WatchEventText(const nlohmann::ordered_json& event) {
  return event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace rocattach
