#include "userspace/record/ending_targets.h"

#include <algorithm>
#include <utility>

namespace rocattach {

void EndingTargets::Add(std::unique_ptr<Target> target, const v1::ProcessEnd& end,
                        Close close) {
  const uint32_t uid = target->uid();
  entries_.push_back({std::move(target), end});
  auto is_users = [uid](const Entry& entry) { return entry.target->uid() == uid; };
  if (std::count_if(entries_.begin(), entries_.end(), is_users) <=
      static_cast<ptrdiff_t>(kMaxPerUser)) {
    return;
  }
  auto oldest = std::find_if(entries_.begin(), entries_.end(), is_users);
  close(oldest->target.get(), oldest->end);
  entries_.erase(oldest);
}

void EndingTargets::Drain(uint64_t now_ns, const DrainShares& shares, Close close) {
  for (size_t i = entries_.size(); i > 0; --i) {
    Entry entry = std::move(entries_.front());
    entries_.pop_front();
    if (entry.target->DrainLast(now_ns, shares.Of(entry.target->uid()))) {
      close(entry.target.get(), entry.end);
    } else {
      entries_.push_back(std::move(entry));
    }
  }
}

void EndingTargets::CloseAll(Close close) {
  for (Entry& entry : entries_) close(entry.target.get(), entry.end);
  entries_.clear();
}

Target* EndingTargets::Find(ProcessId id) {
  for (Entry& entry : entries_) {
    if (entry.target->has_memory() && entry.target->id() == id) {
      return entry.target.get();
    }
  }
  return nullptr;
}

void EndingTargets::AddTo(DrainShares* shares) const {
  for (const Entry& entry : entries_) shares->Add(entry.target->uid());
}

void EndingTargets::ForEach(absl::FunctionRef<void(Target*)> visit) const {
  for (const Entry& entry : entries_) visit(entry.target.get());
}

OperationCounts EndingTargets::Publish() {
  OperationCounts sum;
  for (Entry& entry : entries_) {
    entry.target->published = entry.target->counts();
    sum += entry.target->published;
  }
  return sum;
}

}  // namespace rocattach
