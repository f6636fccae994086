#include "userspace/cli/said_reasons.h"

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

// A shorter reason is repeated: it is read faster than a reference to it.
constexpr size_t kLongBytes = 60;

}  // namespace

std::optional<std::string> SaidReasons::TextToSay(pid_t pid,
                                                  const std::string& reason) {
  if (!said_.emplace(pid, reason).second) return std::nullopt;
  const auto [first, is_new] = first_.emplace(reason, pid);
  if (is_new || reason.size() < kLongBytes) return reason;
  return absl::StrCat("for the same reason as process ", first->second);
}

}  // namespace rocattach
