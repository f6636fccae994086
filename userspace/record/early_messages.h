// Messages about processes whose window has not arrived yet.
#ifndef ROCATTACH_USERSPACE_RECORD_EARLY_MESSAGES_H_
#define ROCATTACH_USERSPACE_RECORD_EARLY_MESSAGES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "userspace/record/recorder_inbox.h"
#include "userspace/watch/windows/window.h"

namespace rocattach {

// A report or an end may overtake its window, which another thread posts; the end of a
// hold usually does if the process is known from an earlier window. Not thread-safe.
class EarlyMessages {
 public:
  // Messages without a window are dropped after this: their window event was lost.
  static constexpr uint64_t kLifeNs = 10'000'000'000;
  // Maximum number of messages per process, and of processes. More are dropped.
  static constexpr size_t kMostPerProcess = 16;
  static constexpr size_t kMostProcesses = 8192;

  void Keep(const ProcessId& process, RecorderMessage message, uint64_t now_ns);
  // Removes and returns the messages of the process, in order.
  std::vector<RecorderMessage> Take(const ProcessId& process);
  // Drops messages that have waited for too long.
  void Expire(uint64_t now_ns);
  bool empty() const { return processes_.empty(); }

 private:
  struct Waiting {
    uint64_t since_ns = 0;
    std::vector<RecorderMessage> messages;
  };
  absl::flat_hash_map<ProcessId, Waiting> processes_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_EARLY_MESSAGES_H_
