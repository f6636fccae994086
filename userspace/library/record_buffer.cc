#include "userspace/library/record_buffer.h"

#include <cstring>
#include <utility>

#include "userspace/session/session_runner.h"

namespace rocattach {
std::shared_ptr<RecordBuffer> RecordBuffer::Create(size_t bytes, Deliver deliver) {
  return std::shared_ptr<RecordBuffer>(new RecordBuffer(bytes, std::move(deliver)));
}

RecordBuffer::RecordBuffer(size_t bytes, Deliver deliver)
    : deliver_(std::move(deliver)), filling_(bytes / 8), delivered_(bytes / 8) {}

bool RecordBuffer::Append(const RecordHeader* header) {
  absl::MutexLock lock(&mutex_);
  const size_t need = header->bytes;
  // The size can change while this thread waits.
  while (need <= filling_.size() * 8 && used_ + need > filling_.size() * 8) {
    if (!delivering_) {
      DeliverAll();
    } else if (UserCallback::Active()) {
      break;
    } else {
      idle_.Wait(&mutex_);
    }
  }
  if (need > filling_.size() * 8 || used_ + need > filling_.size() * 8) {
    ++dropped_;
    return false;
  }
  uint8_t* slot = reinterpret_cast<uint8_t*>(filling_.data()) + used_;
  std::memcpy(slot, header, need);
  const uint64_t id = ++last_id_;
  std::memcpy(slot + offsetof(RecordHeader, id), &id, sizeof(id));
  used_ += need;
  if (used_ + need > filling_.size() * 8) {
    if (!delivering_) {
      DeliverAll();
    } else {
      flush_again_ = true;
    }
  }
  return true;
}

void RecordBuffer::DeliverAll() {
  // A callback may drop the last other reference.
  const std::shared_ptr<RecordBuffer> self = shared_from_this();
  delivering_ = true;
  deliverer_ = std::this_thread::get_id();
  do {
    flush_again_ = false;
    std::swap(filling_, delivered_);
    window_ = std::exchange(used_, 0);
    // After Grow() the halves differ in size until each has been swapped.
    if (filling_.size() < delivered_.size()) filling_.resize(delivered_.size());
    const Deliver deliver = deliver_;
    const uint8_t* begin = reinterpret_cast<const uint8_t*>(delivered_.data());
    const uint8_t* end = begin + window_;
    mutex_.Unlock();
    {
      UserCallback callback;
      deliver(reinterpret_cast<const RecordHeader*>(begin),
              reinterpret_cast<const RecordHeader*>(end));
    }
    mutex_.Lock();
    window_ = 0;
  } while (flush_again_ && used_ > 0);
  flush_again_ = false;
  delivering_ = false;
  deliverer_ = std::thread::id();
  idle_.SignalAll();
}

void RecordBuffer::Flush() {
  absl::MutexLock lock(&mutex_);
  while (delivering_) {
    if (UserCallback::Active()) {
      flush_again_ = true;
      return;
    }
    idle_.Wait(&mutex_);
  }
  if (used_ > 0) DeliverAll();
}

void RecordBuffer::Grow(size_t more, Deliver deliver) {
  Flush();
  absl::MutexLock lock(&mutex_);
  filling_.resize(filling_.size() + more / 8);
  deliver_ = std::move(deliver);
}

bool RecordBuffer::Next(const RecordHeader* record, const RecordHeader** next) const {
  absl::MutexLock lock(&mutex_);
  if (!delivering_ || deliverer_ != std::this_thread::get_id()) return false;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(delivered_.data());
  const uintptr_t at = reinterpret_cast<uintptr_t>(record);
  if (at < begin || at % 8 != 0 || window_ < sizeof(*record) ||
      at > begin + window_ - sizeof(*record)) {
    return false;
  }
  const size_t rest = begin + window_ - at;
  // The user may have overwritten it, or may point into the middle of a record.
  const size_t bytes = record->bytes;
  if (bytes < sizeof(*record) || bytes % 8 != 0 || bytes > rest || record->id == 0 ||
      record->id > last_id_ || record->kind > SessionRecordKind::kSample) {
    return false;
  }
  *next = reinterpret_cast<const RecordHeader*>(
      reinterpret_cast<const uint8_t*>(record) + bytes);
  return true;
}

size_t RecordBuffer::bytes() const {
  absl::MutexLock lock(&mutex_);
  return filling_.size() * 8;
}

uint64_t RecordBuffer::dropped() const {
  absl::MutexLock lock(&mutex_);
  return dropped_;
}

}  // namespace rocattach
