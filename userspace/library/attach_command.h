// One running `rocattach attach`, which records for this process.
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

// Survives whatever the host does with descriptors, signals and wait calls. It ends
// with the host process, whose pidfd is its standard input, or at RequestEnd(); nothing
// that the host could close keeps it alive. One thread at a time may use it.
class AttachCommand {
 public:
  // `arguments` without the program's name. The environment is the caller's, without
  // what would change the program itself.
  static absl::StatusOr<std::unique_ptr<AttachCommand>> Start(
      const std::string& program, const std::vector<std::string>& arguments);
  // Leaves it running.
  ~AttachCommand() = default;

  // The next line of its output, without the newline; a line of more than 64 KiB is
  // cut. DEADLINE_EXCEEDED: none has come until then (CLOCK_MONOTONIC). OUT_OF_RANGE:
  // there are no more.
  absl::StatusOr<std::string> ReadLine(uint64_t deadline_ns);

  // Asks it to end the recording. Only the first call does something.
  void RequestEnd();
  // True if it has ended until then, and everything of it is gone.
  bool WaitForEnd(uint64_t deadline_ns);
  void Kill() { Signal(SIGKILL); }

  bool running() { return !WaitForEnd(0); }
  // What it has printed on standard error so far, or the end of that.
  std::string Errors();
  pid_t pid() const { return pid_; }

 private:
  AttachCommand() = default;
  // These open the descriptor again if the host has closed it; -1 if that is not
  // possible, since the process is gone.
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
