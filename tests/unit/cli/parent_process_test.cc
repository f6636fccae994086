#include "userspace/cli/common/parent_process.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "tests/await.h"

namespace rocattach {
namespace {

// Runs a program below a parent process; other processes see only how the parent ends.
class ParentProcessTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(pipe(ends_), 0); }
  void TearDown() override {
    close(ends_[0]);
    close(ends_[1]);
  }
  void Start(const std::function<int()>& run) {
    program_ = fork();
    ASSERT_GE(program_, 0);
    if (program_ == 0) _exit(RunBelowParent(run));
  }
  // Called in the child: sends its process ID to the test.
  void Say() const {
    const pid_t self = getpid();
    (void)!write(ends_[1], &self, sizeof(self));
  }
  // Waits until there is something to read, or nothing can be written any more.
  bool IsReadable() const {
    pollfd end = {ends_[0], POLLIN, 0};
    return poll(&end, 1, /*timeout=*/60'000) == 1;
  }
  pid_t Hear() const {
    pid_t said = -1;
    if (!IsReadable()) {
      ADD_FAILURE() << "the child has said nothing";
      return said;
    }
    EXPECT_EQ(read(ends_[0], &said, sizeof(said)), static_cast<ssize_t>(sizeof(said)));
    return said;
  }
  int WaitForProgram() const {
    return testing_support::AwaitExit(program_, "the program");
  }

  int ends_[2] = {-1, -1};
  pid_t program_ = -1;
};

TEST_F(ParentProcessTest, EndsWithTheStatusOfItsChild) {
  Start([this] {
    Say();
    return getpid() != MainProcess() && getppid() == MainProcess() ? 7 : 1;
  });
  EXPECT_NE(Hear(), program_);
  const int status = WaitForProgram();
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(MainProcess(), getpid());
}

TEST_F(ParentProcessTest, EndsByTheSignalOfItsChild) {
  Start([] {
    raise(SIGKILL);
    return 0;
  });
  const int status = WaitForProgram();
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
}

TEST_F(ParentProcessTest, PassesSignalsOn) {
  Start([this] {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    Say();
    int number = 0;
    sigwait(&set, &number);
    return number == SIGTERM ? 3 : 1;
  });
  (void)Hear();
  kill(program_, SIGTERM);
  const int status = WaitForProgram();
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 3);
}

TEST_F(ParentProcessTest, EndsBeforeAChildThatCannot) {
  Start([this] {
    Say();
    EndParent(5);
    for (;;) pause();
    return 0;
  });
  const pid_t child = Hear();
  const int status = WaitForProgram();
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 5);
  // Without its parent it would end if it were able to.
  close(ends_[1]);
  ends_[1] = -1;
  EXPECT_TRUE(IsReadable()) << "its files are not closed";
  (void)kill(child, SIGKILL);
}

TEST_F(ParentProcessTest, TheChildEndsWithItsParent) {
  Start([this] {
    Say();
    for (;;) pause();
    return 0;
  });
  (void)Hear();
  kill(program_, SIGKILL);
  EXPECT_TRUE(WIFSIGNALED(WaitForProgram()));
  close(ends_[1]);
  ends_[1] = -1;
  pid_t none;
  ASSERT_TRUE(IsReadable()) << "a writer has not ended";
  EXPECT_EQ(read(ends_[0], &none, sizeof(none)), 0) << "the end of all writers";
}

TEST(MainProcessTest, WithoutAParentThereIsNothingToEnd) {
  EndParent(1);
  EXPECT_EQ(MainProcess(), getpid());
}

}  // namespace
}  // namespace rocattach
