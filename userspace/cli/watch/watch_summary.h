// The end of a run on the console: what was seen, recorded, and lost.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_SUMMARY_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_SUMMARY_H_

#include <cstdint>

#include "userspace/cli/watch/console_output.h"
#include "userspace/service/watcher.h"

namespace rocattach {

// How many processes were not named, because the same was true of one that was.
struct UnnamedCounts {
  uint64_t passed = 0;
  uint64_t refused = 0;
  uint64_t session_refused = 0;
};

// Prints the summary of one run.
class WatchSummary {
 public:
  // `out` must outlive the summary.
  WatchSummary(const WatchConsoleOptions& options, const UnnamedCounts& unnamed,
               ConsoleOutput* out)
      : options_(options), unnamed_(unnamed), out_(out) {}

  void Print(const RunResult& result) const;

 private:
  // What was not seen of processes with new copies of the runtime.
  void PrintMissed(const MissedWindows& missed) const;
  // The result of the session that the options define.
  void PrintSession(const RunResult& result) const;
  // The totals of the run, to programs.
  void PrintJson(const RunResult& result) const;
  // Kernel events, windows and numbers that are missing from the result.
  void PrintLosses(const RunResult& result) const;
  // What was seen and recorded, to users.
  void PrintTotals(const RunResult& result) const;

  const WatchConsoleOptions& options_;
  const UnnamedCounts& unnamed_;
  ConsoleOutput* const out_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_SUMMARY_H_
