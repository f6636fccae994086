#include "userspace/watch/windows/target_stderr.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>

#include "tests/temporary_directory.h"
#include "userspace/base/file.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

constexpr char kLine[] = "rocattach: a message";

// A child that does nothing. Its standard error is `fd`; -1: closed.
class TalkingSleeper {
 public:
  explicit TalkingSleeper(int fd) {
    int ready[2];
    EXPECT_EQ(pipe(ready), 0);
    pid_ = fork();
    if (pid_ == 0) {
      if (fd < 0) {
        close(STDERR_FILENO);
      } else {
        dup2(fd, STDERR_FILENO);
      }
      (void)!write(ready[1], "r", 1);
      for (;;) pause();
    }
    char byte;
    EXPECT_EQ(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
  }
  ~TalkingSleeper() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  absl::Status Write() const {
    return WriteToStderrOf({pid_, *ReadStartTicks(pid_)}, kLine);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

class TargetStderrTest : public testing::Test {
 protected:
  std::string Path(const char* name) const { return directory_ / name; }
  UniqueFd Open(const char* name, int flags) const {
    return *OpenFile(Path(name), flags | O_CREAT, 0600);
  }
  std::string Text(const char* name) const { return *ReadFile(Path(name), 1 << 20); }

  const testing_support::TemporaryDirectory directory_;
};

TEST_F(TargetStderrTest, WritesToAPipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd out(ends[0]), in(ends[1]);
  const TalkingSleeper target(in.get());
  EXPECT_EQ(target.Write(), absl::OkStatus());
  char text[64] = {};
  EXPECT_GT(read(out.get(), text, sizeof(text) - 1), 0);
  EXPECT_EQ(std::string(text), std::string(kLine) + "\n");
  // The flags of its descriptor are unchanged.
  EXPECT_EQ(fcntl(in.get(), F_GETFL) & (O_NONBLOCK | O_APPEND), 0);
}

TEST_F(TargetStderrTest, AFullPipeIsNotWaitedFor) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_NONBLOCK), 0);
  UniqueFd out(ends[0]), in(ends[1]);
  const std::string page(4096, 'x');
  while (write(in.get(), page.data(), page.size()) > 0) {
  }
  const TalkingSleeper target(in.get());
  EXPECT_FALSE(target.Write().ok());
}

TEST_F(TargetStderrTest, APipeWithoutAReaderCausesNoSignal) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd in(ends[1]);
  close(ends[0]);
  // Otherwise the child would keep the other end open.
  const TalkingSleeper target(in.get());
  EXPECT_FALSE(target.Write().ok());
  sigset_t pending;
  sigpending(&pending);
  EXPECT_EQ(sigismember(&pending, SIGPIPE), 0);
}

TEST_F(TargetStderrTest, WritesToATerminal) {
  int master, slave;
  ASSERT_EQ(openpty(&master, &slave, nullptr, nullptr, nullptr), 0);
  UniqueFd out(master), in(slave);
  const TalkingSleeper target(in.get());
  EXPECT_EQ(target.Write(), absl::OkStatus());
  char text[64] = {};
  EXPECT_GT(read(out.get(), text, sizeof(text) - 1), 0);
  EXPECT_THAT(std::string(text), HasSubstr(kLine));
}

TEST_F(TargetStderrTest, AFileIsAppendedTo) {
  const UniqueFd fd = Open("log", O_RDWR);
  ASSERT_EQ(write(fd.get(), "before\n", 7), 7);
  ASSERT_EQ(lseek(fd.get(), 0, SEEK_SET), 0);
  const TalkingSleeper target(fd.get());
  EXPECT_EQ(target.Write(), absl::OkStatus());
  EXPECT_EQ(Text("log"), std::string("before\n") + kLine + "\n");
  EXPECT_EQ(lseek(fd.get(), 0, SEEK_CUR), 0) << "its position is its own";
}

TEST_F(TargetStderrTest, ADeletedFileIsStillWrittenTo) {
  const UniqueFd fd = Open("log", O_RDWR);
  unlink(Path("log").c_str());
  const TalkingSleeper target(fd.get());
  EXPECT_EQ(target.Write(), absl::OkStatus());
}

// The test may run as root, which may write to all of these.
TEST_F(TargetStderrTest, ADescriptorThatTheTargetCannotWriteToIsLeftAlone) {
  close(Open("secret", O_WRONLY).release());
  for (int flags : {O_RDONLY, O_PATH}) {
    const UniqueFd fd(open(Path("secret").c_str(), flags | O_CLOEXEC));
    const TalkingSleeper target(fd.get());
    const absl::Status status = target.Write();
    EXPECT_TRUE(absl::IsPermissionDenied(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("may not write to it"));
  }
  EXPECT_EQ(Text("secret"), "");
}

TEST_F(TargetStderrTest, ASetUidFileIsLeftAlone) {
  const UniqueFd fd = Open("program", O_WRONLY);
  ASSERT_EQ(fchmod(fd.get(), 04755), 0);
  const TalkingSleeper target(fd.get());
  EXPECT_FALSE(target.Write().ok());
  EXPECT_EQ(Text("program"), "");
}

TEST_F(TargetStderrTest, OnlyTerminalsPipesAndFilesAreWrittenTo) {
  for (const char* device : {"/dev/null", "/dev/full", "/dev/zero"}) {
    const UniqueFd fd(open(device, O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd.valid());
    EXPECT_FALSE(TalkingSleeper(fd.get()).Write().ok()) << device;
  }
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  UniqueFd one(ends[0]), other(ends[1]);
  EXPECT_FALSE(TalkingSleeper(one.get()).Write().ok());
  const UniqueFd folder(open(directory_.path().c_str(), O_RDONLY | O_DIRECTORY));
  EXPECT_FALSE(TalkingSleeper(folder.get()).Write().ok());
  EXPECT_FALSE(TalkingSleeper(-1).Write().ok()) << "closed";
}

TEST_F(TargetStderrTest, AnotherProcessIsLeftAlone) {
  const UniqueFd fd = Open("log", O_WRONLY);
  const TalkingSleeper target(fd.get());
  const absl::Status status =
      WriteToStderrOf({target.pid(), *ReadStartTicks(target.pid()) + 1}, kLine);
  EXPECT_TRUE(absl::IsNotFound(status)) << status;
  EXPECT_EQ(Text("log"), "");
}

}  // namespace
}  // namespace rocattach
