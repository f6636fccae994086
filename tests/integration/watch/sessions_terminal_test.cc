// Enter and Ctrl-C at a terminal, and waiting without one.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/watch/sessions_fixture.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// A command in the foreground of a terminal of its own.
class Terminal {
 public:
  explicit Terminal(const std::vector<std::string>& words) {
    std::vector<char*> argv;
    for (const std::string& word : words) {
      argv.push_back(const_cast<char*>(word.c_str()));
    }
    argv.push_back(nullptr);
    int fd = -1;
    pid_ = forkpty(&fd, nullptr, nullptr, nullptr);
    if (pid_ == 0) {
      execvp(argv[0], argv.data());
      _exit(127);
    }
    fd_.reset(fd);
  }
  ~Terminal() {
    if (!ended_) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void Type(const std::string& text) {
    ASSERT_EQ(write(fd_.get(), text.data(), text.size()),
              static_cast<ssize_t>(text.size()));
  }
  // What it has written, once that contains `text`, or after five seconds.
  const std::string& Until(const std::string& text) {
    for (int i = 0; i < 500 && output_.find(text) == std::string::npos; ++i) Read(10);
    return output_;
  }
  // Exit status; -1 if it does not end within ten seconds.
  int Wait() {
    for (int i = 0; i < 1000; ++i) {
      Read(10);
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        Read(10);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
    }
    return -1;
  }
  const std::string& output() const { return output_; }
  pid_t pid() const { return pid_; }

 private:
  void Read(int timeout_msec) {
    pollfd input = {fd_.get(), POLLIN, 0};
    if (poll(&input, 1, timeout_msec) <= 0) return;
    char bytes[4096];
    const ssize_t got = read(fd_.get(), bytes, sizeof(bytes));
    if (got > 0) output_.append(bytes, static_cast<size_t>(got));
    if (got <= 0) usleep(static_cast<useconds_t>(timeout_msec) * 1000);
  }

  pid_t pid_ = -1;
  UniqueFd fd_;
  std::string output_;
  bool ended_ = false;
};

class SessionTerminal : public SessionsTest {
 protected:
  std::vector<std::string> Start(std::vector<std::string> more) {
    std::vector<std::string> words = {ClientPath(), "session",  "start", "--pmc",
                                      "SQ_WAVES",   "--socket", Socket()};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  std::string Status() {
    return Child({ClientPath(), "session", "status", "--socket", Socket()})
        .Wait()
        .output;
  }
};

TEST_F(SessionTerminal, EnterStopsTheSession) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Terminal terminal(Start({}));
  EXPECT_THAT(terminal.Until("press Enter"), HasSubstr("session 1: collecting"));
  EXPECT_THAT(Status(), HasSubstr("session 1: collecting"));
  terminal.Type("\n");
  EXPECT_EQ(terminal.Wait(), 0) << terminal.output();
  EXPECT_THAT(terminal.output(), HasSubstr("session 1: over"));
  EXPECT_THAT(Status(), HasSubstr("session 1: over"));
  // Ctrl-C does the same.
  Terminal second(Start({}));
  EXPECT_THAT(second.Until("press Enter"), HasSubstr("session 2: collecting"));
  second.Type("\x03");
  EXPECT_EQ(second.Wait(), 0) << second.output();
  EXPECT_THAT(Status(), HasSubstr("session 2: over"));
  // It need not stay, not even at a terminal.
  Terminal third(Start({"--no-wait"}));
  EXPECT_EQ(third.Wait(), 0) << third.output();
  EXPECT_THAT(third.output(), Not(HasSubstr("Enter")));
  EXPECT_THAT(Status(), HasSubstr("session 3: collecting"));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(SessionTerminal, WaitingWithoutATerminal) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  // Its own end.
  const Finished timed =
      Child(Start({"--wait", "--json", "--attach-duration-msec", "300"})).Wait();
  EXPECT_TRUE(timed.exited_with(0)) << timed.errors;
  EXPECT_THAT(timed.output, HasSubstr("{\"session\":1}"));
  // A signal.
  Child waiting(Start({"--wait"}));
  for (int i = 0; i < 500; ++i) {
    if (waiting.PollOutput().find("collecting") != std::string::npos) break;
    usleep(10'000);
  }
  waiting.Signal(SIGINT);
  const Finished stopped = waiting.Wait();
  EXPECT_TRUE(stopped.exited_with(0)) << stopped.errors;
  EXPECT_THAT(stopped.output, HasSubstr("session 2: over"));
  // Another client.
  Child left(Start({"--wait"}));
  for (int i = 0; i < 500; ++i) {
    if (left.PollOutput().find("collecting") != std::string::npos) break;
    usleep(10'000);
  }
  EXPECT_TRUE(Child({ClientPath(), "session", "stop", "3", "--socket", Socket()})
                  .Wait()
                  .exited_with(0));
  EXPECT_TRUE(left.Wait().exited_with(0));
  // The end of the service is none of the session's.
  Child last(Start({"--wait"}));
  for (int i = 0; i < 500; ++i) {
    if (last.PollOutput().find("collecting") != std::string::npos) break;
    usleep(10'000);
  }
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  EXPECT_TRUE(last.Wait().exited_with(3));
}

TEST_F(SessionTerminal, EnterEndsTheWatcher) {
  Terminal terminal({WatcherPath(), "--auto", "-o", directory_.path() + "/run",
                     "--socket", Socket(), "--kfd-topology", directory_.path()});
  terminal.Until("Enter");
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "20"}));
  const pid_t pid = target.pid();
  EXPECT_TRUE(target.Wait().exited_with(0));
  terminal.Type("no, this is only text\n");
  EXPECT_EQ(terminal.Wait(), 0) << terminal.output();
  const Recording recording = ReadRecording(directory_.path() + "/run.rwa");
  EXPECT_TRUE(recording.ended);
  EXPECT_EQ(recording.Process(pid).dispatches.size(), 20u);
}

}  // namespace
}  // namespace rocattach::testing_support
