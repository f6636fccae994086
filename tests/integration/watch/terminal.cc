#include "tests/integration/watch/terminal.h"

#include <errno.h>
#include <pty.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/watch/hang_report.h"

namespace rocattach::testing_support {

Terminal::Terminal(std::vector<std::string> argv,
                   std::vector<std::string> environment) {
  std::vector<char*> words;
  for (std::string& word : argv) words.push_back(word.data());
  words.push_back(nullptr);
  int master = -1;
  pid_ = forkpty(&master, nullptr, nullptr, nullptr);
  if (pid_ == 0) {
    for (std::string& entry : environment) putenv(entry.data());
    execvp(words[0], words.data());
    _exit(127);
  }
  master_.reset(master);
}

Terminal::~Terminal() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

const std::string& Terminal::ReadUntil(const std::string& text) {
  char chunk[4096];
  bool reported = false;
  while (text.empty() || seen_.find(text) == std::string::npos) {
    AwaitReadable(master_.get(), &reported);
    ssize_t n = read(master_.get(), chunk, sizeof(chunk));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;  // EIO: no process has the other side open any more
    seen_.append(chunk, static_cast<size_t>(n));
  }
  return seen_;
}

void Terminal::Type(const std::string& text) const {
  (void)!write(master_.get(), text.data(), text.size());
}

int Terminal::Wait() {
  (void)ReadUntil("");
  bool reported = false;
  AwaitEnd(pid_, &reported);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  return status;
}

std::vector<std::string> Terminal::Lines() const {
  std::vector<std::string> lines;
  for (size_t at = 0; at < seen_.size();) {
    size_t end = seen_.find("\r\n", at);
    if (end == std::string::npos) end = seen_.size();
    lines.push_back(seen_.substr(at, end - at));
    at = end + 2;
  }
  return lines;
}

}  // namespace rocattach::testing_support
