// The Enter key of the terminal that a command was started from.
#ifndef ROCATTACH_USERSPACE_CLI_TERMINAL_ENTER_KEY_H_
#define ROCATTACH_USERSPACE_CLI_TERMINAL_ENTER_KEY_H_

namespace rocattach {

class EnterKey {
 public:
  // Watches standard input, if `wanted` and it is a terminal.
  explicit EnterKey(bool wanted);

  bool watching() const { return watching_; }

  // True if a line was entered since the last call; waits up to `timeout_msec` for one.
  // In the background the terminal is not read, because that would stop the process.
  // Signals end the wait.
  bool Pressed(int timeout_msec);

 private:
  bool watching_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_ENTER_KEY_H_
