// A file in place of a console's output.
#ifndef ROCATTACH_TESTS_UNIT_CLI_WATCH_CONSOLE_FILE_H_
#define ROCATTACH_TESTS_UNIT_CLI_WATCH_CONSOLE_FILE_H_

#include <stdio.h>
#include <unistd.h>

#include <string>

#include "userspace/cli/watch/console_output.h"

namespace rocattach {

class ConsoleFile {
 public:
  ~ConsoleFile() { fclose(file_); }

  FILE* file() const { return file_; }
  // Console options that print to this file.
  WatchConsoleOptions Options() const {
    WatchConsoleOptions options;
    options.out = file_;
    return options;
  }
  // Text printed so far.
  std::string Text() const {
    std::string text(65536, '\0');
    const ssize_t bytes = pread(fileno(file_), text.data(), text.size(), 0);
    text.resize(bytes > 0 ? static_cast<size_t>(bytes) : 0);
    return text;
  }

 private:
  FILE* const file_ = tmpfile();
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_CLI_WATCH_CONSOLE_FILE_H_
