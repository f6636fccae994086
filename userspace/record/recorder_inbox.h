// Messages and tasks from other threads for the recorder's thread.
#ifndef ROCATTACH_USERSPACE_RECORD_RECORDER_INBOX_H_
#define ROCATTACH_USERSPACE_RECORD_RECORDER_INBOX_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <variant>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "bpf/watch_events.h"
#include "schemas/stream.pb.h"
#include "userspace/base/process.h"
#include "userspace/base/wake_event.h"
#include "userspace/record/arrival.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

// Work for the recorder's thread.
struct RecorderTask {
  std::function<void()> run;
};
// The workload of a process.
struct WorkloadMessage {
  ProcessId process;
  v1::Workload workload;
};
using RecorderMessage =
    std::variant<Window, Arrival, RecorderTask, WorkloadMessage, rocattach_event>;

// Thread-safe; only one thread calls TakeAll() and Wait(). Posting never waits.
class RecorderInbox {
 public:
  // With this many messages waiting, no process is attached; beyond the second number,
  // only messages about attached processes are accepted. The first is more than the
  // kernel side lets one user cause in a second.
  static constexpr size_t kCrowdedMessages = 8192;
  static constexpr size_t kMostMessages = 16384;

  // An error if the process has no descriptor left.
  absl::Status status() const { return wake_.status(); }

  void Post(RecorderMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same, but if too many are waiting, the message is dropped and counted.
  void PostIfRoom(RecorderMessage message) ABSL_LOCKS_EXCLUDED(mutex_);
  // The same as Post(); after Close() it does nothing and returns false.
  bool PostTask(std::function<void()> task) ABSL_LOCKS_EXCLUDED(mutex_);
  // No tasks are accepted from here on; Wait() returns false when everything has been
  // taken.
  void Close() ABSL_LOCKS_EXCLUDED(mutex_);

  std::deque<RecorderMessage> TakeAll() ABSL_LOCKS_EXCLUDED(mutex_);
  // Waits until there is a message, `timeout_msec` at most; -1: forever. False if the
  // inbox is closed and empty.
  bool Wait(int timeout_msec) ABSL_LOCKS_EXCLUDED(mutex_);

  // True if too many messages are waiting; cheap.
  bool crowded() const { return crowded_.load(std::memory_order_relaxed); }
  uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  void Push(RecorderMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  WakeEvent wake_;
  absl::Mutex mutex_;
  std::deque<RecorderMessage> messages_ ABSL_GUARDED_BY(mutex_);
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<bool> crowded_ = false;
  std::atomic<uint64_t> dropped_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_RECORDER_INBOX_H_
