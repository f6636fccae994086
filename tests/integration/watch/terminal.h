// A program on a terminal of its own: what people see and type.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_TERMINAL_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_TERMINAL_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "userspace/base/unique_fd.h"

namespace rocattach::testing_support {

class Terminal {
 public:
  // Starts argv[0] (looked up in PATH), with NAME=VALUE added to its environment.
  explicit Terminal(std::vector<std::string> argv,
                    std::vector<std::string> environment = {});
  ~Terminal();
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  pid_t pid() const { return pid_; }
  // Reads until `text` has come or the program has ended; returns all output so far.
  const std::string& ReadUntil(const std::string& text);
  // Types the text, which is echoed as on any terminal.
  void Type(const std::string& text) const;
  // Reads to the end and waits; returns the status as of wait(2).
  int Wait();
  const std::string& seen() const { return seen_; }
  // The output as lines without line ends; keeps what a carriage return overwrote.
  std::vector<std::string> Lines() const;

 private:
  pid_t pid_ = -1;
  UniqueFd master_;
  std::string seen_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_TERMINAL_H_
