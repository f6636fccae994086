#include "userspace/service/refusal_notices.h"

namespace rocattach {

RefusalNotices::Due RefusalNotices::Add(uint64_t session, ProcessId target,
                                        const std::string& why, uint64_t period) {
  auto [entry, is_new] = last_.try_emplace({session, target});
  const bool other_reason = is_new || entry->second.why != why;
  if (!other_reason && entry->second.period == period) return {};
  entry->second = {why, period};
  return {.stream = true, .people = other_reason};
}

void RefusalNotices::KeepOnly(const std::set<ProcessId>& targets) {
  std::erase_if(
      last_, [&](const auto& entry) { return !targets.contains(entry.first.second); });
}

void RefusalNotices::Forget(uint64_t session) {
  std::erase_if(last_, [&](const auto& entry) { return entry.first.first == session; });
}

}  // namespace rocattach
