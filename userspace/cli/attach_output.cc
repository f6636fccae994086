#include "userspace/cli/attach_output.h"

#include "absl/time/clock.h"
#include "userspace/base/json.h"

namespace rocattach {

void AttachOutput::Say(const LogEntry& entry) {
  std::string line = LogLine(log_format_, "rocattach", entry, absl::Now());
  line.pop_back();  // the newline
  AddLine(line);
}

void AttachOutput::AddEvent(const Json& event) {
  AddLine(DumpJson(event));
}

void AttachOutput::AddLine(const std::string& line) {
  if (live_line_shown_) fputs("\r\x1b[K", out_);
  live_line_shown_ = false;
  fprintf(out_, "%s\n", line.c_str());
  fflush(out_);
}

void AttachOutput::ShowLive(const std::string& text) {
  fprintf(out_, "\r\x1b[K%s", text.c_str());
  fflush(out_);
  live_line_shown_ = true;
}

}  // namespace rocattach
