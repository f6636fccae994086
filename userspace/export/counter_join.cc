#include "userspace/export/counter_join.h"

#include <utility>

namespace rocattach {

size_t CounterJoin::Size(absl::Span<const CounterRecord> values) {
  size_t size = values.size();
  for (const CounterRecord& value : values) {
    // A value takes about as much memory as six instances.
    if (value.each != nullptr) size += value.each->size() / 6;
  }
  return size;
}

void CounterJoin::Add(const LinkedDispatch& dispatch) {
  const uint64_t operation = dispatch.record.correlation_id;
  const auto waiting = waiting_.find(operation);
  if (waiting != waiting_.end()) {
    const std::vector<CounterRecord> values = std::move(waiting->second);
    waiting_.erase(waiting);
    waiting_values_ -= Size(values);
    emit_({&dispatch.record, values, dispatch.correlation_id, own_id_(operation)});
    return;
  }
  if (newer_.size() >= window_) {
    older_ = std::move(newer_);
    newer_.clear();
    newer_.reserve(window_);
  }
  newer_.insert_or_assign(operation, dispatch);
}

bool CounterJoin::EmitWith(Dispatches* dispatches,
                           absl::Span<const CounterRecord> values) {
  const auto found = dispatches->find(values[0].operation);
  if (found == dispatches->end()) return false;
  emit_({&found->second.record, values, found->second.correlation_id,
         own_id_(found->first)});
  dispatches->erase(found);
  return true;
}

void CounterJoin::AddValues(absl::Span<const CounterRecord> values) {
  while (!values.empty()) {
    size_t count = 1;
    while (count < values.size() && values[count].operation == values[0].operation &&
           values[count].session == values[0].session) {
      ++count;
    }
    const auto operation = values.subspan(0, count);
    values.remove_prefix(count);
    if (EmitWith(&newer_, operation) || EmitWith(&older_, operation)) continue;
    std::vector<CounterRecord>& kept = waiting_[operation[0].operation];
    if (kept.empty()) waiting_order_.push_back(operation[0].operation);
    kept.insert(kept.end(), operation.begin(), operation.end());
    waiting_values_ += Size(operation);
    while (waiting_values_ > value_window_) EmitOldest();
  }
}

void CounterJoin::EmitOldest() {
  const uint64_t operation = waiting_order_.front();
  waiting_order_.pop_front();
  const auto waiting = waiting_.find(operation);
  if (waiting == waiting_.end()) return;
  const std::vector<CounterRecord> values = std::move(waiting->second);
  waiting_.erase(waiting);
  waiting_values_ -= Size(values);
  ++unmatched_;
  const uint64_t id = own_id_(operation);
  emit_({nullptr, values, id, id});
}

void CounterJoin::Finish() {
  while (!waiting_order_.empty()) EmitOldest();
}

}  // namespace rocattach
