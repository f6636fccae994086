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
  absl::MutexLock lock(&mutex_);
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
  changed_.Signal();
}

void RunQueue::PushNames(v1::RunNames names) {
  absl::MutexLock lock(&mutex_);
  if (closed_) return;
  *events_.emplace_back().mutable_names() = std::move(names);
  changed_.Signal();
}

void RunQueue::PushEnded(ProcessId target) {
  absl::MutexLock lock(&mutex_);
  *events_.emplace_back().mutable_ended() = ToProto(target);
  changed_.Signal();
}

void RunQueue::Close() {
  absl::MutexLock lock(&mutex_);
  if (lost_ > 0 && !closed_) {
    v1::RunRecords* records = events_.emplace_back().mutable_records();
    records->set_total(total_);
    records->set_lost(std::exchange(lost_, 0));
  }
  closed_ = true;
  changed_.Signal();
}

std::optional<v1::RunEvent> RunQueue::Pop(std::chrono::milliseconds patience) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  for (;;) {
    {
      absl::MutexLock lock(&mutex_);
      if (!events_.empty()) {
        v1::RunEvent event = std::move(events_.front());
        events_.pop_front();
        bytes_ -= event.records().records().size();
        return event;
      }
      if (closed_) return std::nullopt;
    }
    const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return std::nullopt;
    (void)changed_.WaitFor(static_cast<uint64_t>(left.count()));
  }
}

bool RunQueue::finished() const {
  absl::MutexLock lock(&mutex_);
  return closed_ && events_.empty();
}

uint64_t RunQueue::total() const {
  absl::MutexLock lock(&mutex_);
  return total_;
}

}  // namespace rocattach
