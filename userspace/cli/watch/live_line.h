// The line on a terminal that says what rocattach-watch has seen so far.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_LIVE_LINE_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_LIVE_LINE_H_

#include <cstdint>
#include <string>

#include "userspace/record/run_statistics.h"

namespace rocattach {

// Builds the text, with the rate of dispatches since the last one. Not thread-safe.
class LiveLine {
 public:
  std::string Text(const RunTotals& totals, uint64_t now_ns);

 private:
  uint64_t last_dispatches_ = 0;
  uint64_t last_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_LIVE_LINE_H_
