#include "userspace/cli/stream_input.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "userspace/base/file.h"
#include "userspace/cli/subcommands.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

volatile sig_atomic_t g_stopped = 0;  // a type that a signal handler may write

void OnReadSignal(int) {
  g_stopped = 1;
}

}  // namespace

void StopReadingOnSignals() {
  struct sigaction action = {};
  action.sa_handler = OnReadSignal;
  // Without SA_RESTART, so that a signal interrupts a waiting read.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

bool ReadingStopped() {
  return g_stopped != 0;
}

int ReadStreams(const std::vector<std::string>& paths, bool follow,
                StreamDecoder* decoder) {
  int exit_status = kExitOk;
  for (size_t i = 0; i < paths.size() && !ReadingStopped(); ++i) {
    ReadOptions options;
    options.follow = follow && i + 1 == paths.size();
    options.stop = ReadingStopped;
    absl::Status status = ReadStream(paths[i], options, decoder);
    if (status.ok()) continue;
    fprintf(stderr, "rocattach: %s\n", std::string(status.message()).c_str());
    exit_status = kExitUnreadable;
  }
  return exit_status;
}

bool WriteStdout(absl::string_view text) {
  static bool closed = false;
  if (closed) return true;
  absl::Status status = WriteAll(STDOUT_FILENO, text);
  if (status.ok()) return true;
  int error = errno;
  closed = true;
  g_stopped = 1;
  if (error == EPIPE) return true;
  fprintf(stderr, "rocattach: standard output: %s\n", strerror(error));
  return false;
}

size_t TerminalWidth() {
  if (!isatty(STDOUT_FILENO)) return 0;
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace rocattach
