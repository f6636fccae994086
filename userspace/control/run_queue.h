// What a run has collected and its client has not read yet.
#ifndef ROCATTACH_USERSPACE_CONTROL_RUN_QUEUE_H_
#define ROCATTACH_USERSPACE_CONTROL_RUN_QUEUE_H_

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "schemas/session_api.pb.h"
#include "userspace/session/session_types.h"

namespace rocattach {

// Thread-safe. Who puts something in never waits: a client that does not read must not
// hold up the thread that empties the targets' memory.
class RunQueue {
 public:
  // More than this is lost, and counted.
  static constexpr size_t kMostBytes = size_t{64} << 20;

  void PushRecords(const RecordHeader* begin, const RecordHeader* end);
  void PushEnded(TargetId target);
  // Nothing comes any more.
  void Close();

  // The next event; nullopt if none came in time, or none will.
  std::optional<v1::RunEvent> Pop(std::chrono::milliseconds patience);
  // Closed, and everything has been taken.
  bool finished() const;
  // Records that were put in, those that were lost included.
  uint64_t total() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<v1::RunEvent> events_;
  size_t bytes_ = 0;
  uint64_t total_ = 0;
  uint64_t lost_ = 0;  // not told yet
  bool closed_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CONTROL_RUN_QUEUE_H_
