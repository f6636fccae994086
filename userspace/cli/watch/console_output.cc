#include "userspace/cli/watch/console_output.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "userspace/base/json.h"

namespace rocattach {
namespace {

constexpr char kProgram[] = "rocattach-watch";
// At the end, output is flushed as long as its reader makes progress within this time.
constexpr int kPatienceMsec = 2000;

}  // namespace

ConsoleOutput::ConsoleOutput(const WatchConsoleOptions& options)
    : log_format_(options.log_format),
      shows_live_(isatty(fileno(options.out)) != 0 && options.live && !options.json &&
                  !options.quiet && options.log_format != LogFormat::kJson),
      to_standard_error_(fileno(options.out) == STDERR_FILENO),
      out_(fileno(options.out)) {}

ConsoleOutput::~ConsoleOutput() {
  out_.Finish(kPatienceMsec);
  errors_.Finish(kPatienceMsec);
}

void ConsoleOutput::Say(const LogEntry& entry) {
  ClearLive();
  out_.Add(LogLine(log_format_, kProgram, entry, absl::Now()));
}

void ConsoleOutput::SayError(absl::string_view event, std::string message) {
  LineOutput& to = to_standard_error_ ? out_ : errors_;
  to.Add(LogLine(
      log_format_, kProgram,
      {.level = LogLevel::kError, .event = event, .message = std::move(message)},
      absl::Now()));
}

// A target's text must not break out of the line or control a terminal; the recorder
// has already made it valid UTF-8 without control characters.
void ConsoleOutput::AddEvent(const Json& event) {
  out_.Add(DumpJson(event) + "\n");
}

void ConsoleOutput::ShowLive(absl::string_view text) {
  if (!shows_live_) return;
  ClearLive();
  out_.Add(text);
  live_shown_ = true;
}

void ConsoleOutput::ClearLive() {
  if (!live_shown_) return;
  out_.Add("\r\033[K");
  live_shown_ = false;
}

uint64_t ConsoleOutput::TakeLinesLost() {
  return out_.lines_left_out() - std::exchange(lines_lost_, out_.lines_left_out());
}

}  // namespace rocattach
