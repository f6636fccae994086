// Detects the end of standard input, for programs that another program runs.
#ifndef ROCATTACH_USERSPACE_CLI_TERMINAL_INPUT_END_H_
#define ROCATTACH_USERSPACE_CLI_TERMINAL_INPUT_END_H_

#include <functional>
#include <thread>

#include "userspace/base/wake_event.h"

namespace rocattach {

// Reads standard input on a thread of its own until it ends, and ignores the data. It
// ends when the process at the other end closes it or dies.
class InputEnd {
 public:
  // Calls `on_end` at most once, on that thread. Does nothing unless `wanted`.
  InputEnd(bool wanted, std::function<void()> on_end);
  ~InputEnd();
  InputEnd(const InputEnd&) = delete;
  InputEnd& operator=(const InputEnd&) = delete;

 private:
  void Read();

  std::function<void()> on_end_;
  WakeEvent stop_;
  std::thread thread_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_INPUT_END_H_
