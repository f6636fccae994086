// The lines of rocattach-watch's console.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_CONSOLE_OUTPUT_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_CONSOLE_OUTPUT_H_

#include <stdio.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "userspace/base/json.h"
#include "userspace/cli/terminal/line_output.h"
#include "userspace/cli/terminal/log_line.h"

namespace rocattach {

struct WatchConsoleOptions {
  bool json = false;  // events for programs, instead of the log
  LogFormat log_format = LogFormat::kText;
  bool quiet = false;
  bool attach = false;  // --auto: processes are attached to, not only reported
  // Report only the first passed process for each reason.
  bool passed_once = false;
  // Show a status line (not beside a command's own output).
  bool live = true;
  uint32_t lines_per_second = 0;  // about one user's processes; 0: no limit
  FILE* out = stderr;
};

// Writes entries of the log, events for programs and the live line, without waiting for
// a reader. Not thread-safe.
class ConsoleOutput {
 public:
  explicit ConsoleOutput(const WatchConsoleOptions& options);
  // Waits for the reader as long as it makes progress.
  ~ConsoleOutput();

  // Prints an entry of the log.
  void Say(const LogEntry& entry);
  void Say(LogLevel level, absl::string_view event, std::string message) {
    Say({.level = level, .event = event, .message = std::move(message)});
  }
  // Prints an error on standard error, wherever the other output goes.
  void SayError(absl::string_view event, std::string message);
  // Prints one event for programs.
  void AddEvent(const Json& event);
  // Shows the text until the next output, on a terminal only.
  void ShowLive(absl::string_view text);
  void ClearLive();
  // Writes what can be written without waiting.
  void Flush() { out_.Flush(); }
  // Number of lines lost since the last call because they were not read in time.
  uint64_t TakeLinesLost();

  // True if the live line can be shown.
  bool shows_live() const { return shows_live_; }

 private:
  const LogFormat log_format_;
  const bool shows_live_;
  const bool to_standard_error_;
  LineOutput out_;
  LineOutput errors_{2};  // used if out_ is not standard error
  bool live_shown_ = false;
  uint64_t lines_lost_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_CONSOLE_OUTPUT_H_
