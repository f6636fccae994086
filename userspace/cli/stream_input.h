// What the commands that read streams share: stopping, standard output, exit status.
#ifndef ROCATTACH_USERSPACE_CLI_STREAM_INPUT_H_
#define ROCATTACH_USERSPACE_CLI_STREAM_INPUT_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

// SIGINT and SIGTERM end reading cleanly, so that what was read is still shown.
void StopReadingOnSignals();
bool ReadingStopped();

// Reads all files in a row ("-": standard input) and reports those that cannot be read
// on standard error. Returns kExitOk or kExitUnreadable. `follow` applies to the last.
int ReadStreams(const std::vector<std::string>& paths, bool follow,
                StreamDecoder* decoder);

// Writes to standard output. False once that has failed, which is reported once. A
// reader that exits, as `head` does, is not a failure: reading ends.
bool WriteStdout(absl::string_view text);

// Columns of the terminal that standard output is; 0 if it is none.
size_t TerminalWidth();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_STREAM_INPUT_H_
