// Enter and Ctrl-C at a terminal, and waiting without one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/integration/watch/sessions_fixture.h"
#include "tests/integration/watch/terminal.h"

namespace rocattach::testing_support {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The exit status of the program; 128 plus the number of a signal that ended it.
int Exit(Terminal* terminal) {
  const int status = terminal->Wait();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

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
  EXPECT_THAT(terminal.ReadUntil("press Enter"), HasSubstr("session 1: collecting"));
  EXPECT_THAT(Status(), HasSubstr("session 1: collecting"));
  terminal.Type("\n");
  EXPECT_EQ(Exit(&terminal), 0) << terminal.seen();
  EXPECT_THAT(terminal.seen(), HasSubstr("session 1: ended"));
  EXPECT_THAT(Status(), HasSubstr("session 1: ended"));
  // Ctrl-C does the same.
  Terminal second(Start({}));
  EXPECT_THAT(second.ReadUntil("press Enter"), HasSubstr("session 2: collecting"));
  second.Type("\x03");
  EXPECT_EQ(Exit(&second), 0) << second.seen();
  EXPECT_THAT(Status(), HasSubstr("session 2: ended"));
  // The client need not wait, not even at a terminal.
  Terminal third(Start({"--no-wait"}));
  EXPECT_EQ(Exit(&third), 0) << third.seen();
  EXPECT_THAT(third.seen(), Not(HasSubstr("Enter")));
  EXPECT_THAT(Status(), HasSubstr("session 3: collecting"));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(SessionTerminal, EndMessageStatesCollectedCountsAndRecording) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  Child session(Start({"--wait"}));
  ASSERT_TRUE(Eventually(
      [&] { return session.PollOutput().find("collecting") != std::string::npos; }));
  EXPECT_TRUE(Child(OnSimrocm({}, {"hsa_dispatch", "-n", "40"})).Wait().exited_with(0));
  session.Signal(SIGINT);
  const Finished ended = session.Wait();
  EXPECT_TRUE(ended.exited_with(0)) << ended.errors;
  const std::string words =
      "session 1: ended; collected counters of 40 dispatches in " + watcher.recording();
  EXPECT_THAT(ended.output, HasSubstr(words));
  EXPECT_THAT(Status(), HasSubstr(words));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
}

TEST_F(SessionTerminal, WaitingWithoutATerminal) {
  WatcherProcess watcher(Watch({"--backend", "sdk", "--socket", Socket()}));
  ASSERT_TRUE(watcher.ready());
  // The session ends by itself.
  const Finished timed =
      Child(Start({"--wait", "--json", "--attach-duration-msec", "300"})).Wait();
  EXPECT_TRUE(timed.exited_with(0)) << timed.errors;
  EXPECT_THAT(timed.output, HasSubstr("{\"session\":1,\"collected\":[]"));
  // A signal ends it.
  Child waiting(Start({"--wait"}));
  ASSERT_TRUE(Eventually(
      [&] { return waiting.PollOutput().find("collecting") != std::string::npos; }));
  waiting.Signal(SIGINT);
  const Finished stopped = waiting.Wait();
  EXPECT_TRUE(stopped.exited_with(0)) << stopped.errors;
  EXPECT_THAT(stopped.output, HasSubstr("session 2: ended"));
  // Another client ends it.
  Child left(Start({"--wait"}));
  ASSERT_TRUE(Eventually(
      [&] { return left.PollOutput().find("collecting") != std::string::npos; }));
  EXPECT_TRUE(Child({ClientPath(), "session", "stop", "3", "--socket", Socket()})
                  .Wait()
                  .exited_with(0));
  EXPECT_TRUE(left.Wait().exited_with(0));
  // The service ends, and so does the session; the client may learn of either first.
  Child last(Start({"--wait"}));
  ASSERT_TRUE(Eventually(
      [&] { return last.PollOutput().find("collecting") != std::string::npos; }));
  EXPECT_TRUE(watcher.Stop().exited_with(0));
  const Finished ended = last.Wait();
  EXPECT_TRUE(ended.exited_with(0) || ended.exited_with(3)) << ended.errors;
}

TEST_F(SessionTerminal, EnterEndsTheWatcher) {
  Terminal terminal({WatcherPath(), "--auto", "--hold-timeout-msec", "10000", "-d",
                     directory_.path(), "-o", "run", "--socket", Socket(),
                     "--kfd-topology", directory_.path()});
  terminal.ReadUntil("Enter");
  Child target(OnSimrocm({}, {"hsa_dispatch", "-n", "20"}));
  const pid_t pid = target.pid();
  EXPECT_TRUE(target.Wait().exited_with(0));
  terminal.Type("no, this is only text\n");
  EXPECT_EQ(Exit(&terminal), 0) << terminal.seen();
  const Recording recording = ReadRecording(directory_.path() + "/run.rwa");
  EXPECT_TRUE(recording.ended);
  EXPECT_EQ(recording.Process(pid).dispatches.size(), 20u);
}

}  // namespace
}  // namespace rocattach::testing_support
