#include "userspace/cli/attach_output.h"

#include "absl/time/clock.h"

namespace rocattach {

void AttachOutput::Say(const LogEntry& entry) {
  std::string line = LogLine(log_format_, "rocattach", entry, absl::Now());
  line.pop_back();  // the newline
  AddLine(line);
}

void AttachOutput::AddEvent(const nlohmann::ordered_json& event) {
  AddLine(event.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
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
