#include "userspace/export/common/launch_links.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <type_traits>

#include "schemas/records.pb.h"

namespace rocattach {
namespace {

// Calls around a call that are looked at; only damaged inputs have more.
constexpr int kMostNested = 256;

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

void LaunchLinks::BeforeMemory() {
  Decide(false);
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
  if (id.has_value() && operations_.empty()) return Emit(record, *id);
  while (!operations_.empty() && operations_.size() >= max_waiting_) ReleaseOldest();
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
    waiting_.insert(
        {record.tid, record.enqueue_ns, first_number_ + operations_.size()});
  }
  operations_.push_back(operation);
}

std::optional<uint64_t> LaunchLinks::Find(uint32_t tid, uint64_t enqueue_ns) const {
  const auto known = threads_.find(tid);
  if (known == threads_.end()) return std::nullopt;
  const Thread& thread = known->second;
  // The first call that returned at that time or later, or one around it.
  const auto first =
      std::partition_point(thread.calls.begin(), thread.calls.end(),
                           [&](const Call& call) { return call.end_ns < enqueue_ns; });
  if (first == thread.calls.end()) return std::nullopt;
  const Call* call = &*first;
  for (int nested = 0; call->begin_ns > enqueue_ns; ++nested) {
    if (call->parent == 0 || nested == kMostNested) return std::nullopt;
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
  // They come in the order of their ends, unless the input is damaged.
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

void LaunchLinks::AddCall(const ApiCallRecord& call) {
  const auto first = waiting_.lower_bound({call.tid, call.begin_ns, 0});
  auto last = first;
  const Key end = {call.tid, call.end_ns, std::numeric_limits<uint64_t>::max()};
  for (; last != waiting_.end() && *last <= end; ++last) {
    Operation& operation = operations_[last->number - first_number_];
    operation.known = true;
    operation.id = call.correlation_id == 0 ? OfOperation(operation.own_id())
                                            : OfCall(call.correlation_id);
  }
  if (first != last) {
    waiting_.erase(first, last);
    EmitKnown();
  }
  Remember(call);
}

void LaunchLinks::Remember(const ApiCallRecord& call) {
  const size_t most_threads = std::max<size_t>(64, max_calls_ / 64);
  while (threads_.size() >= most_threads && !threads_.contains(call.tid)) {
    ForgetOldest();
  }
  Thread& thread = threads_[call.tid];
  // Out of order: it cannot be found later.
  if (!thread.calls.empty() && call.end_ns < thread.calls.back().end_ns) return;
  const uint64_t number = thread.first + thread.calls.size();
  while (!thread.roots.empty()) {
    Call& inner = thread.calls[thread.roots.back() - thread.first];
    if (inner.begin_ns < call.begin_ns) break;
    inner.parent = number;
    thread.roots.pop_back();
  }
  thread.roots.push_back(number);
  thread.calls.push_back({call.begin_ns, call.end_ns, call.correlation_id, 0});
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
  while (!operations_.empty() &&
         newest_ns_ - operations_.front().since_ns > kMaxWaitNs) {
    ReleaseOldest();
  }
}

void LaunchLinks::ReleaseOldest() {
  Operation& oldest = operations_.front();
  const Key key =
      oldest.copy ? Key{oldest.of_copy.tid, oldest.of_copy.enqueue_ns, first_number_}
                  : Key{oldest.dispatch.tid, oldest.dispatch.enqueue_ns, first_number_};
  waiting_.erase(key);
  oldest.known = true;
  oldest.id = OfOperation(oldest.own_id());
  EmitKnown();
}

void LaunchLinks::Release(bool all) {
  while (!operations_.empty() && (all || first_number_ < released_before_)) {
    ReleaseOldest();
  }
  released_before_ = first_number_ + operations_.size();
}

void LaunchLinks::EmitKnown() {
  while (!operations_.empty() && operations_.front().known) {
    const Operation& operation = operations_.front();
    if (operation.copy) {
      Emit(operation.of_copy, operation.id);
    } else {
      Emit(operation.dispatch, operation.id);
    }
    operations_.pop_front();
    ++first_number_;
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
