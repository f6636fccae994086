// Messages of `rocattach convert`: progress on a terminal, damage, results.
#ifndef ROCATTACH_USERSPACE_CLI_TERMINAL_CONVERT_CONSOLE_H_
#define ROCATTACH_USERSPACE_CLI_TERMINAL_CONVERT_CONSOLE_H_

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/stream/decoder.h"

namespace rocattach {

// A progress line on standard error, rewritten several times a second. No output
// without a terminal.
class ConvertProgress {
 public:
  // `paths`: the inputs. Their size is known unless one is a pipe.
  explicit ConvertProgress(const std::vector<std::string>& paths);
  // Removes the line.
  ~ConvertProgress();

  void Update(const ReadStats& stats);

  // "[=====>    ]  51 %  1,234,567 records, 1,200,000/s, 2.50 s left".
  static std::string Line(uint64_t bytes, uint64_t total_bytes, uint64_t records,
                          double seconds);

 private:
  using Clock = std::chrono::steady_clock;

  const bool terminal_;
  uint64_t total_bytes_ = 0;  // 0: not known
  const Clock::time_point begin_ = Clock::now();
  Clock::time_point shown_ = begin_;
  bool visible_ = false;
};

// The losses of an input, as clauses for users; empty: none. `before` and `after`: the
// statistics before and after it was read.
std::vector<std::string> MissingFromInput(const ReadStats& before,
                                          const ReadStats& after);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_CONVERT_CONSOLE_H_
