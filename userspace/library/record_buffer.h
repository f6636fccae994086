// Buffers a session's records and delivers them to the user.
#ifndef ROCATTACH_USERSPACE_LIBRARY_RECORD_BUFFER_H_
#define ROCATTACH_USERSPACE_LIBRARY_RECORD_BUFFER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "userspace/session/session_record.h"

namespace rocattach {

// Records are appended to one half while the other half is being delivered. A delivery
// happens when the next record of the same size would not fit, and on Flush(). No lock
// is held during a callback: it may call anything, this buffer included.
//
//   1. A callback (UserCallback) that flushes its own buffer, or one that another thread delivers,
//      must not wait (it might wait for itself): the flush is left to the delivering
//      thread, which continues until the buffer is empty.
//   2. A thread outside of callbacks waits for a delivery in progress, so that when
//      Flush returns, everything that was in the buffer has been delivered.
class RecordBuffer : public std::enable_shared_from_this<RecordBuffer> {
 public:
  using Deliver =
      std::function<void(const RecordHeader* begin, const RecordHeader* end)>;

  // `bytes` is rounded down to a multiple of 8.
  static std::shared_ptr<RecordBuffer> Create(size_t bytes, Deliver deliver);

  // Copies a record of header->bytes (a multiple of 8), giving it the next id. False,
  // and counted as dropped, if it is larger than the buffer, or if a callback on this
  // thread's stack makes it impossible to free space.
  bool Append(const RecordHeader* header);

  void Flush();

  // Delivers what is buffered, then grows by `more` bytes.
  void Grow(size_t more, Deliver deliver);

  // For the callback: steps from a record of the current delivery on this thread to the
  // next. False if `record` is not part of it.
  bool Next(const RecordHeader* record, const RecordHeader** next) const;

  size_t bytes() const;
  uint64_t dropped() const;

 private:
  RecordBuffer(size_t bytes, Deliver deliver);
  // Releases the mutex during the callback.
  void DeliverAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  mutable absl::Mutex mutex_;
  absl::CondVar idle_;
  Deliver deliver_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> filling_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> delivered_ ABSL_GUARDED_BY(mutex_);
  size_t used_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of filling_
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
  bool delivering_ ABSL_GUARDED_BY(mutex_) = false;
  bool flush_again_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread::id deliverer_ ABSL_GUARDED_BY(mutex_);
  // Bytes of delivered_ that the callback may read.
  size_t window_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_RECORD_BUFFER_H_
