#include "userspace/cli/terminal/log_line.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "userspace/base/file.h"
#include "userspace/base/json.h"

namespace rocattach {
namespace {

// Limit of short values: process names have up to 15 bytes, reasons less than 40.
constexpr size_t kMostWordBytes = 64;

const char* LevelName(LogLevel level) {
  switch (level) {
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "error";
}

// At most `most` bytes, without a partial UTF-8 character at the end.
std::string Cut(absl::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  constexpr absl::string_view kMark = "...";
  size_t size = most - kMark.size();
  while (size > 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;
  return absl::StrCat(text.substr(0, size), kMark);
}

std::string JsonLine(const LogEntry& entry, absl::Time now) {
  Json line = {
      {"time", absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", now, absl::UTCTimeZone())},
      {"level", LevelName(entry.level)},
      {"event", Cut(entry.event, kMostWordBytes)},
      {"message", Cut(entry.message, kMostLogMessageBytes)}};
  if (entry.pid != 0) line["pid"] = entry.pid;
  if (!entry.comm.empty()) line["comm"] = Cut(entry.comm, kMostWordBytes);
  if (entry.uid.has_value()) line["uid"] = *entry.uid;
  if (!entry.reason.empty()) line["reason"] = Cut(entry.reason, kMostWordBytes);
  return line.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace

std::string LogLine(LogFormat format, absl::string_view program, const LogEntry& entry,
                    absl::Time now) {
  if (format == LogFormat::kText) {
    return absl::StrCat(program, ": ", entry.message, "\n");
  }
  return JsonLine(entry, now) + "\n";
}

void WriteLog(LogFormat format, absl::string_view program, const LogEntry& entry) {
  // If standard error is gone, there is nowhere to report it.
  (void)WriteAll(STDERR_FILENO, LogLine(format, program, entry, absl::Now()));
}

}  // namespace rocattach
