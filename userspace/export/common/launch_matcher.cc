#include "userspace/export/common/launch_matcher.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace rocattach {

void SortCalls(std::vector<const ApiCallRecord*>* calls) {
  std::stable_sort(calls->begin(), calls->end(), [](const auto* a, const auto* b) {
    return std::tie(a->tid, a->begin_ns, b->end_ns) <
           std::tie(b->tid, b->begin_ns, a->end_ns);
  });
}

bool LaunchMatcher::Submit(uint32_t tid, uint64_t enqueue_ns, uint64_t operation) {
  const auto seen = seen_until_ns_.find(tid);
  if (seen != seen_until_ns_.end() && enqueue_ns <= seen->second) return false;
  if (waiting_.size() == kMaxWaiting) {
    const auto middle = std::next(waiting_.begin(), kMaxWaiting / 2);
    std::nth_element(
        waiting_.begin(), middle, waiting_.end(),
        [](const auto& a, const auto& b) { return a.enqueue_ns < b.enqueue_ns; });
    waiting_.erase(waiting_.begin(), middle);
  }
  waiting_.push_back({tid, enqueue_ns, operation});
  return true;
}

const std::vector<std::pair<size_t, uint64_t>>& LaunchMatcher::Match(
    absl::Span<const ApiCallRecord* const> calls) {
  matches_.clear();
  std::sort(waiting_.begin(), waiting_.end(), [](const auto& a, const auto& b) {
    return std::tie(a.tid, a.enqueue_ns, a.operation) <
           std::tie(b.tid, b.enqueue_ns, b.operation);
  });
  if (seen_until_ns_.size() > kMaxThreads) seen_until_ns_.clear();
  auto operation = waiting_.begin();
  auto kept = waiting_.begin();
  for (size_t first = 0; first < calls.size();) {
    const uint32_t tid = calls[first]->tid;
    size_t last = first;
    while (last < calls.size() && calls[last]->tid == tid) ++last;
    const auto begin =
        std::partition_point(operation, waiting_.end(),
                             [&](const Waiting& waiting) { return waiting.tid < tid; });
    const auto end = std::partition_point(
        begin, waiting_.end(),
        [&](const Waiting& waiting) { return waiting.tid == tid; });
    kept = std::move(operation, begin, kept);
    kept = MatchThread(calls.subspan(first, last - first), first, begin, end, kept);
    operation = end;
    first = last;
  }
  waiting_.erase(std::move(operation, waiting_.end(), kept), waiting_.end());
  std::sort(matches_.begin(), matches_.end());
  return matches_;
}

LaunchMatcher::WaitingIterator LaunchMatcher::MatchThread(
    absl::Span<const ApiCallRecord* const> calls, size_t first_call,
    WaitingIterator begin, WaitingIterator end, WaitingIterator kept) {
  stack_.clear();
  size_t next = 0;
  // Enters all calls that began at `time_ns` or before, and leaves those that had
  // returned by then.
  auto advance = [&](uint64_t time_ns) {
    for (; next < calls.size() && calls[next]->begin_ns <= time_ns; ++next) {
      stack_.push_back(next);
    }
    while (!stack_.empty() && calls[stack_.back()]->end_ns < time_ns) {
      stack_.pop_back();
    }
  };
  for (auto operation = begin; operation != end; ++operation) {
    advance(operation->enqueue_ns);
    if (stack_.empty()) {
      *kept++ = *operation;  // its call has not been recorded yet
    } else {
      matches_.emplace_back(first_call + stack_.back(), operation->operation);
    }
  }
  uint64_t& seen = seen_until_ns_[calls[0]->tid];
  for (const ApiCallRecord* call : calls) seen = std::max(seen, call->end_ns);
  return kept;
}

}  // namespace rocattach
