// The end of a run on the console: what was seen, recorded, and lost.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_SUMMARY_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_SUMMARY_H_

#include <cstdint>

#include "userspace/cli/watch/console_output.h"
#include "userspace/service/watcher.h"

namespace rocattach {

// Number of processes not reported individually, as another had the same reason.
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
  // Prints the windows that were missed in processes with new copies of the runtime.
  void PrintMissed(const MissedWindows& missed) const;
  // Prints the result of the session that the options define.
  void PrintSession(const RunResult& result) const;
  // Prints the totals of the run, for programs.
  void PrintJson(const RunResult& result) const;
  // Prints what is missing from the result: kernel events, windows, numbers.
  void PrintLosses(const RunResult& result) const;
  // Prints what was seen and recorded, for users.
  void PrintTotals(const RunResult& result) const;

  const WatchConsoleOptions& options_;
  const UnnamedCounts& unnamed_;
  ConsoleOutput* const out_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_SUMMARY_H_
