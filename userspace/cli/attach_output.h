// The lines that `rocattach attach` prints: text for users, events for programs, and the
// live line.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_OUTPUT_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_OUTPUT_H_

#include <stdio.h>

#include <string>

#include "userspace/base/json.h"
#include "userspace/cli/terminal/log_line.h"

namespace rocattach {

// May block on its reader. Not thread-safe.
class AttachOutput {
 public:
  // `out` must outlive this object.
  AttachOutput(FILE* out, LogFormat log_format) : out_(out), log_format_(log_format) {}

  // Prints an entry of the log.
  void Say(const LogEntry& entry);
  // Prints one event for programs.
  void AddEvent(const Json& event);
  // Prints one line unchanged.
  void AddLine(const std::string& line);
  // Shows the text on a terminal until the next output.
  void ShowLive(const std::string& text);

 private:
  FILE* const out_;
  const LogFormat log_format_;
  bool live_line_shown_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_OUTPUT_H_
