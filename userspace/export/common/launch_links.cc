#include "userspace/export/common/launch_links.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <type_traits>

#include "schemas/records.pb.h"

namespace rocattach {
namespace {

// Maximum number of calls around a call that are tried; only damaged inputs have more.
constexpr int kMostNested = 256;
// Number of threads without waiting operations whose queues are kept for later ones.
constexpr size_t kMostIdleThreads = 1024;
// Minimum number of emitted operations at the front before these are erased.
constexpr size_t kMostGone = 4096;

bool MayLaunch(uint32_t domain) {
  return domain != v1::API_DOMAIN_MARKER;
}

}  // namespace

void LaunchLinks::ExpectCalls(bool may_launch) {
  calls_expected_ = true;
  launches_expected_ |= may_launch;
}

void LaunchLinks::Decide(bool operation_first) {
  if (decided_) return;
  decided_ = true;
  calls_marked_ = operation_first && !calls_expected_;
}

void LaunchLinks::Add(absl::Span<const rocattach_dispatch> records) {
  for (const rocattach_dispatch& record : records) AddOperation(record);
  ReleaseDue();
}

void LaunchLinks::Add(absl::Span<const rocattach_copy> records) {
  for (const rocattach_copy& record : records) AddOperation(record);
  ReleaseDue();
}

template <typename Record>
void LaunchLinks::AddOperation(const Record& record) {
  Decide(true);
  newest_ns_ = std::max({newest_ns_, record.enqueue_ns, record.end_ns});
  std::optional<uint64_t> id;
  if (!launches_expected_) {
    id = OfOperation(record.correlation_id);
  } else if (const auto call = Find(record.tid, record.enqueue_ns); call.has_value()) {
    id = *call == 0 ? OfOperation(record.correlation_id) : OfCall(*call);
  }
  if (id.has_value() && waiting() == 0) return Emit(record, *id);
  while (waiting() > 0 && waiting() >= max_waiting_) ReleaseOldest();
  Operation operation;
  operation.since_ns = newest_ns_;
  operation.known = id.has_value();
  operation.id = id.value_or(0);
  if constexpr (std::is_same_v<Record, rocattach_copy>) {
    operation.copy = true;
    operation.of_copy = record;
  } else {
    operation.copy = false;
    operation.dispatch = record;
  }
  if (!operation.known) {
    Wait(record.tid, {record.enqueue_ns, first_number_ + waiting()});
  }
  operations_.push_back(operation);
}

void LaunchLinks::Wait(uint32_t tid, Waiting operation) {
  WaitingQueue& queue = waiting_[tid];
  if (queue.empty() || queue.back() < operation) {
    queue.push_back(operation);
  } else {
    queue.insert(std::upper_bound(queue.begin(), queue.end(), operation), operation);
  }
}

std::optional<uint64_t> LaunchLinks::Find(uint32_t tid, uint64_t enqueue_ns) const {
  const auto known = threads_.find(tid);
  if (known == threads_.end()) return std::nullopt;
  const Thread& thread = known->second;
  std::optional<uint64_t> none;
  if (enqueue_ns < thread.settled_ns && !nesting_unknown_) none = 0;
  // It is the first call that returned at that time or later, or one around it; usually
  // one of the last.
  const std::deque<Call>& calls = thread.calls;
  size_t last = calls.size(), step = 1;
  while (last > 0 && calls[last - 1].end_ns >= enqueue_ns) {
    last -= std::min(last, step);
    step *= 2;
  }
  const auto first =
      std::partition_point(calls.begin() + static_cast<ptrdiff_t>(last), calls.end(),
                           [&](const Call& call) { return call.end_ns < enqueue_ns; });
  if (first == thread.calls.end()) return none;
  const Call* call = &*first;
  for (int nested = 0; call->begin_ns > enqueue_ns; ++nested) {
    if (call->parent == 0 || nested == kMostNested) return none;
    call = &thread.At(call->parent);
  }
  return call->id;
}

void LaunchLinks::Add(absl::Span<const ApiCallRecord> calls) {
  if (calls.empty()) return;
  Decide(false);
  sorted_.clear();
  for (const ApiCallRecord& call : calls) {
    if (!MayLaunch(call.domain) || call.end_ns < call.begin_ns) continue;
    launches_expected_ = true;
    newest_ns_ = std::max(newest_ns_, call.end_ns);
    sorted_.push_back(&call);
  }
  // Calls come in the order of their ends, unless the input is damaged.
  const auto order = [](const ApiCallRecord* a, const ApiCallRecord* b) {
    return std::tie(a->tid, a->end_ns, b->begin_ns) <
           std::tie(b->tid, b->end_ns, a->begin_ns);
  };
  if (!std::is_sorted(sorted_.begin(), sorted_.end(), order)) {
    std::stable_sort(sorted_.begin(), sorted_.end(), order);
  }
  for (const ApiCallRecord* call : sorted_) AddCall(*call);
  ReleaseDue();
}

bool LaunchLinks::IsOutermost(const ApiCallRecord& call) const {
  // A call without an id has no known ancestor either.
  return call.ancestor_id == 0 && call.correlation_id != 0 && !nesting_unknown_;
}

void LaunchLinks::AddCall(const ApiCallRecord& call) {
  const auto found = waiting_.find(call.tid);
  if (found != waiting_.end()) {
    Settle(call, &found->second);
    if (found->second.empty() && waiting_.size() > kMostIdleThreads) {
      waiting_.erase(found);
    }
  }
  Remember(call);
}

void LaunchLinks::Settle(const ApiCallRecord& call, WaitingQueue* waiting) {
  const Waiting begin = {call.begin_ns, 0};
  const Waiting end = {call.end_ns, std::numeric_limits<uint64_t>::max()};
  const auto inside = std::lower_bound(waiting->begin(), waiting->end(), begin);
  const auto first = IsOutermost(call) ? waiting->begin() : inside;
  const auto last = std::upper_bound(inside, waiting->end(), end);
  if (first == last) return;
  for (auto it = first; it != last; ++it) {
    Operation& operation = At(it->number);
    operation.known = true;
    operation.id = it < inside || call.correlation_id == 0
                       ? OfOperation(operation.own_id())
                       : OfCall(call.correlation_id);
  }
  waiting->erase(first, last);
  EmitKnown();
}

void LaunchLinks::Remember(const ApiCallRecord& call) {
  const size_t most_threads = std::max<size_t>(64, max_calls_ / 64);
  while (threads_.size() >= most_threads && !threads_.contains(call.tid)) {
    ForgetOldest();
  }
  Thread& thread = threads_[call.tid];
  // Out of order: the call could not be found later.
  if (!thread.calls.empty() && call.end_ns < thread.calls.back().end_ns) return;
  const uint64_t number = thread.first + thread.calls.size();
  while (!thread.roots.empty()) {
    Call& inner = thread.calls[thread.roots.back() - thread.first];
    if (inner.begin_ns < call.begin_ns) break;
    inner.parent = number;
    // Records of an SDK that does not report the ancestors of calls.
    nesting_unknown_ |= inner.outermost && inner.begin_ns > call.begin_ns;
    thread.roots.pop_back();
  }
  thread.roots.push_back(number);
  const bool outermost = IsOutermost(call);
  if (outermost) thread.settled_ns = std::max(thread.settled_ns, call.begin_ns);
  thread.calls.push_back(
      {call.begin_ns, call.end_ns, call.correlation_id, 0, outermost});
  call_order_.push_back(call.tid);
  while (call_order_.size() > max_calls_) ForgetOldest();
}

void LaunchLinks::ForgetOldest() {
  const auto oldest = threads_.find(call_order_.front());
  call_order_.pop_front();
  Thread& thread = oldest->second;
  if (thread.roots.front() == thread.first) thread.roots.pop_front();
  thread.calls.pop_front();
  ++thread.first;
  if (thread.calls.empty()) threads_.erase(oldest);
}

void LaunchLinks::ReleaseDue() {
  while (waiting() > 0 && newest_ns_ - operations_[head_].since_ns > kMaxWaitNs) {
    ReleaseOldest();
  }
}

void LaunchLinks::ReleaseOldest() {
  Operation& oldest = operations_[head_];
  const uint32_t tid = oldest.copy ? oldest.of_copy.tid : oldest.dispatch.tid;
  const Waiting key = {
      oldest.copy ? oldest.of_copy.enqueue_ns : oldest.dispatch.enqueue_ns,
      first_number_};
  WaitingQueue& queue = waiting_.find(tid)->second;
  queue.erase(std::lower_bound(queue.begin(), queue.end(), key));
  if (queue.empty() && waiting_.size() > kMostIdleThreads) waiting_.erase(tid);
  oldest.known = true;
  oldest.id = OfOperation(oldest.own_id());
  EmitKnown();
}

void LaunchLinks::Release(bool all) {
  while (waiting() > 0 && (all || first_number_ < released_before_)) {
    ReleaseOldest();
  }
  released_before_ = first_number_ + waiting();
}

void LaunchLinks::EmitKnown() {
  while (waiting() > 0 && operations_[head_].known) {
    const Operation& operation = operations_[head_];
    if (operation.copy) {
      Emit(operation.of_copy, operation.id);
    } else {
      Emit(operation.dispatch, operation.id);
    }
    ++head_;
    ++first_number_;
  }
  if (waiting() == 0) {
    operations_.clear();
    head_ = 0;
  } else if (head_ >= kMostGone && head_ >= waiting()) {
    operations_.erase(operations_.begin(),
                      operations_.begin() + static_cast<ptrdiff_t>(head_));
    head_ = 0;
  }
}

void LaunchLinks::Emit(const rocattach_dispatch& record, uint64_t id) {
  dispatches_.push_back({record, id});
}

void LaunchLinks::Emit(const rocattach_copy& record, uint64_t id) {
  copies_.push_back(record);
  copies_.back().correlation_id = id;
}

}  // namespace rocattach
