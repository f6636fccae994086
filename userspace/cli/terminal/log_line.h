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

// Longer messages are cut. In JSON a byte takes at most six bytes; with the other
// values, this gives the limit of a line.
inline constexpr size_t kMostLogMessageBytes = 2048;
inline constexpr size_t kMostLogLineBytes = 16384;

// One event. Fields that are empty or unset are omitted.
struct LogEntry {
  LogLevel level = LogLevel::kInfo;
  // The kind of event, a word that does not change; docs/operations.md lists them all.
  absl::string_view event;
  std::string message;  // for people, without a newline
  pid_t pid = 0;        // the process concerned; 0: none
  std::string comm = {};
  std::optional<uint32_t> uid = std::nullopt;
  // The reason of a verdict, as in the documentation's table of verdicts.
  std::string reason = {};
};

// The entry with a newline at its end. Text is "PROGRAM: MESSAGE". In JSON, control and
// non-ASCII characters are escaped, and bytes that are not UTF-8 are replaced, so that
// no message can break out of its line.
std::string LogLine(LogFormat format, absl::string_view program, const LogEntry& entry,
                    absl::Time now);

// Writes the entry to standard error in one piece. For rare messages only: it may wait
// for the reader.
void WriteLog(LogFormat format, absl::string_view program, const LogEntry& entry);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_TERMINAL_LOG_LINE_H_
