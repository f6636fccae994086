// One `rocattach attach` process, which records on behalf of this process.
#ifndef ROCATTACH_USERSPACE_LIBRARY_ATTACH_COMMAND_H_
#define ROCATTACH_USERSPACE_LIBRARY_ATTACH_COMMAND_H_

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/library/guarded_fd.h"

namespace rocattach {

// Unaffected by what the host does with descriptors, signals and wait calls. Ends with
// the host process, whose pidfd is its standard input, or at RequestEnd(); nothing that
// the host could close keeps it alive. One thread at a time may use it.
class AttachCommand {
 public:
  // `arguments`: without the program's name. The environment is the caller's, without
  // variables that would affect the program itself.
  static absl::StatusOr<std::unique_ptr<AttachCommand>> Start(
      const std::string& program, const std::vector<std::string>& arguments);
  // Leaves the command running.
  ~AttachCommand() = default;

  // The next line of its output, without the newline; a line of more than 64 KiB is
  // cut. DEADLINE_EXCEEDED: no line came by the deadline (CLOCK_MONOTONIC).
  // OUT_OF_RANGE: there are no more lines.
  absl::StatusOr<std::string> ReadLine(uint64_t deadline_ns);

  // Asks it to end the recording. Only the first call has an effect.
  void RequestEnd();
  // True if it has ended by the deadline. Reaps it if it is our child.
  bool WaitForEnd(uint64_t deadline_ns);
  void Kill() { Signal(SIGKILL); }

  bool running() { return !WaitForEnd(0); }
  // Its output on standard error so far; if that is long, the end of it.
  std::string Errors();
  pid_t pid() const { return pid_; }

 private:
  AttachCommand() = default;
  // These reopen the descriptor if the host has closed it; -1 if that is not possible,
  // for example because the process is gone.
  int Pidfd();
  int Output();
  void Signal(int number);

  pid_t pid_ = -1;
  uint64_t start_ticks_ = 0;
  GuardedFd pidfd_, output_;
  GuardedFd errors_;    // a file in memory
  std::string unread_;  // the beginning of the next line
  bool cut_ = false;    // the rest of the line is dropped
  bool asked_ = false;  // RequestEnd() was called
  bool ended_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ATTACH_COMMAND_H_
