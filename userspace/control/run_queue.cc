#include "userspace/control/run_queue.h"

#include <utility>

#include "userspace/control/session_wire.h"

namespace rocattach {

void RunQueue::PushRecords(const RecordHeader* begin, const RecordHeader* end) {
  const char* at = reinterpret_cast<const char*>(begin);
  const size_t bytes = static_cast<size_t>(reinterpret_cast<const char*>(end) - at);
  uint64_t count = 0;
  for (size_t offset = 0; offset < bytes; ++count) {
    offset += reinterpret_cast<const RecordHeader*>(at + offset)->bytes;
  }
  std::lock_guard<std::mutex> lock(mutex_);
  total_ += count;
  if (bytes_ + bytes > kMostBytes || closed_) {
    lost_ += count;
    return;
  }
  v1::RunRecords* records = events_.emplace_back().mutable_records();
  records->set_records(at, bytes);
  records->set_total(total_);
  records->set_lost(std::exchange(lost_, 0));
  bytes_ += bytes;
  changed_.notify_all();
}

void RunQueue::PushEnded(TargetId target) {
  std::lock_guard<std::mutex> lock(mutex_);
  *events_.emplace_back().mutable_ended() = ToProto(target);
  changed_.notify_all();
}

void RunQueue::Close() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (lost_ > 0 && !closed_) {
    v1::RunRecords* records = events_.emplace_back().mutable_records();
    records->set_total(total_);
    records->set_lost(std::exchange(lost_, 0));
  }
  closed_ = true;
  changed_.notify_all();
}

std::optional<v1::RunEvent> RunQueue::Pop(std::chrono::milliseconds patience) {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait_for(lock, patience, [&] { return !events_.empty() || closed_; });
  if (events_.empty()) return std::nullopt;
  v1::RunEvent event = std::move(events_.front());
  events_.pop_front();
  bytes_ -= event.records().records().size();
  return event;
}

bool RunQueue::finished() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return closed_ && events_.empty();
}

uint64_t RunQueue::total() const {
  std::lock_guard<std::mutex> lock(mutex_);
  return total_;
}

}  // namespace rocattach
