// Line output to a reader that may be slow, or may never read at all.
#ifndef ROCATTACH_USERSPACE_CLI_TERMINAL_LINE_OUTPUT_H_
#define ROCATTACH_USERSPACE_CLI_TERMINAL_LINE_OUTPUT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// Writes to a descriptor that may block, such as a terminal or a shell's pipe, without
// ever waiting: text that the reader has not taken yet is kept, up to a limit, and
// written later. Beyond the limit, whole lines are dropped and counted.
// Not thread-safe. The program must ignore SIGPIPE.
class LineOutput {
 public:
  // `fd` remains the caller's.
  explicit LineOutput(int fd, size_t most_kept_bytes = 4 << 20)
      : fd_(fd), most_kept_bytes_(most_kept_bytes) {}

  // Adds text, which must end with a newline unless it is to be overwritten (a live
  // line), and writes what can be written now.
  void Add(absl::string_view text);
  // Writes what can be written now. Call it regularly.
  void Flush();
  // At the end: writes everything, as long as the reader takes some of it within each
  // `patience_msec`.
  void Finish(int patience_msec);

  uint64_t lines_left_out() const { return lines_left_out_; }
  size_t kept_bytes() const { return kept_.size() - written_; }

 private:
  // Waits up to `wait_msec` for room, then writes what fits; false if nothing did.
  bool WriteSome(int wait_msec);

  const int fd_;
  const size_t most_kept_bytes_;
  std::string kept_;
  size_t written_ = 0;  // bytes of kept_
  bool broken_ = false;
  uint64_t lines_left_out_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_LINE_OUTPUT_H_
