// The memory that a session's records wait in, and their delivery to the user.
#ifndef ROCATTACH_USERSPACE_SESSION_RECORD_BUFFER_H_
#define ROCATTACH_USERSPACE_SESSION_RECORD_BUFFER_H_

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "userspace/session/rocattach_sessions.h"

namespace rocattach {

// Records are appended to one half while the other half is being delivered. A delivery
// happens when the next record of the same size would not fit, and on Flush(). No lock
// is held during a callback: it may call anything, this buffer included.
//
//   1. A callback that flushes its own buffer, or one that another thread is
//   delivering,
//      must not wait (it might wait for itself): the flush is left to the thread that
//      delivers, which goes on until the buffer is empty.
//   2. A thread outside of callbacks waits for a delivery under way, so that when Flush
//      returns to it everything that was there has been delivered.
class RecordBuffer : public std::enable_shared_from_this<RecordBuffer> {
 public:
  using Deliver = std::function<void(const rocattach_record_header_t* begin,
                                     const rocattach_record_header_t* end)>;

  // `bytes` is rounded down to a multiple of 8.
  static std::shared_ptr<RecordBuffer> Create(size_t bytes, Deliver deliver);

  // Takes every record and keeps none: for sessions whose records go elsewhere.
  static std::shared_ptr<RecordBuffer> CreateUnread();
  bool unread() const { return unread_; }

  // Copies a record of header->bytes (a multiple of 8), giving it the next id. False,
  // and counted as dropped, if it is larger than the buffer, or if a callback on this
  // thread's stack leaves no way to make room.
  bool Append(const rocattach_record_header_t* header);

  void Flush();

  // Delivers what is there, then has `more` bytes in addition.
  void Grow(size_t more, Deliver deliver);

  // For the callback: steps from a record of the delivery under way on this thread to
  // the next. False if `record` is none of it.
  bool Next(const rocattach_record_header_t* record,
            const rocattach_record_header_t** next) const;

  size_t bytes() const;
  uint64_t dropped() const;

  // While one exists, this thread counts as inside a callback (see above).
  class CallbackScope {
   public:
    CallbackScope();
    ~CallbackScope();
    CallbackScope(const CallbackScope&) = delete;
    CallbackScope& operator=(const CallbackScope&) = delete;
  };
  static bool InCallback();

 private:
  RecordBuffer(size_t bytes, Deliver deliver, bool unread);
  void DeliverAll(std::unique_lock<std::mutex>& lock);

  const bool unread_;
  mutable std::mutex mutex_;
  std::condition_variable idle_;
  Deliver deliver_;
  std::vector<uint64_t> filling_, delivered_;
  size_t used_ = 0;  // bytes of filling_
  uint64_t last_id_ = 0;
  uint64_t dropped_ = 0;
  bool delivering_ = false;
  bool flush_again_ = false;
  std::thread::id deliverer_;
  size_t window_ = 0;  // bytes of delivered_ that the callback may look at
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SESSION_RECORD_BUFFER_H_
