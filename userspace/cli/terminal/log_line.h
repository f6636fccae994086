// The log of rocattach-watch: lines of text for people, or one JSON object a line.
#ifndef ROCATTACH_USERSPACE_CLI_TERMINAL_LOG_LINE_H_
#define ROCATTACH_USERSPACE_CLI_TERMINAL_LOG_LINE_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rocattach {

enum class LogFormat { kText, kJson };
enum class LogLevel { kInfo, kWarning, kError };

// Longer messages are cut. In JSON a byte becomes six at most, so with its other values
// a line has at most so many bytes.
inline constexpr size_t kMostLogMessageBytes = 2048;
inline constexpr size_t kMostLogLineBytes = 16384;

// One thing that happened. What is empty or unset is omitted.
struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  // What kind of thing, in one word that does not change: docs/operations.md has all.
  absl::string_view event;
  std::string message;  // for people, without a newline
  pid_t pid = 0;        // the process that it is about; 0: none
  std::string comm = {};
  std::optional<uint32_t> uid = std::nullopt;
  // Of a verdict: as in the documentation's table of verdicts.
  std::string reason = {};
};

// The entry with a newline at its end. Text is "PROGRAM: MESSAGE". In JSON, control
// characters and all that is not ASCII are escaped, and bytes that are not UTF-8 are
// replaced, so no message can break out of its line.
std::string LogLine(LogFormat format, absl::string_view program, const LogEntry& entry,
                    absl::Time now);

// Writes it to standard error, in one piece. For what is reported rarely: it may wait for
// the reader.
void WriteLog(LogFormat format, absl::string_view program, const LogEntry& entry);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_LOG_LINE_H_
