// Common to commands that read streams: stopping, standard output, exit status.
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

// Reads all files in turn ("-": standard input) and reports those that cannot be read
// on standard error. Returns kExitOk or kExitUnreadable. `follow` applies to the last.
int ReadStreams(const std::vector<std::string>& paths, bool follow,
                StreamDecoder* decoder);

// Writes to standard output. False only for the first write that fails, which is also
// reported; reading ends then. A reader that exits, as `head` does, is not a failure.
bool WriteStdout(absl::string_view text);

// Width of the terminal in columns; 0 if standard output is not a terminal.
size_t TerminalWidth();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_STREAM_INPUT_H_
