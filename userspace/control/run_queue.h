// Data that a run has collected and its client has not read yet.
#ifndef ROCATTACH_USERSPACE_CONTROL_RUN_QUEUE_H_
#define ROCATTACH_USERSPACE_CONTROL_RUN_QUEUE_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "schemas/sessions.pb.h"
#include "userspace/base/wake_event.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Thread-safe; one thread at a time may call Pop(). Producers never wait: a client that
// does not read must not delay the thread that drains the targets' memory.
class RunQueue {
 public:
  // Records beyond this limit are lost, and counted.
  static constexpr size_t kMostBytes = size_t{64} << 20;

  void PushRecords(const RecordHeader* begin, const RecordHeader* end);
  // Adds names for the records that follow. The limit does not apply to them.
  void PushNames(v1::RunNames names);
  void PushEnded(ProcessId target);
  // Ends the queue: records that are added afterwards are lost.
  void Close();

  // The next event; nullopt if none arrived in time, or the queue has ended.
  std::optional<v1::RunEvent> Pop(std::chrono::milliseconds patience);
  // True if the queue was closed and everything has been taken.
  bool finished() const;
  // Number of records that were added, lost ones included.
  uint64_t total() const;

 private:
  mutable absl::Mutex mutex_;
  std::deque<v1::RunEvent> events_ ABSL_GUARDED_BY(mutex_);
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t total_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;  // not reported yet
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  WakeEvent changed_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_RUN_QUEUE_H_
