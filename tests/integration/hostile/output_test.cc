// Outputs that are never read, and starts that fail.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "tests/integration/hostile/hostile_harness.h"

namespace rocattach::testing_support {
namespace {

// A service whose standard output is a pipe that stays open and is never read.
class UnreadService {
 public:
  explicit UnreadService(std::vector<std::string> arguments) {
    int output[2], errors[2];
    if (pipe2(output, O_CLOEXEC) != 0 || pipe2(errors, O_CLOEXEC) != 0) abort();
    std::vector<std::string> words = {
        WatcherPath(), "--auto",        "--hold-timeout-msec", "10000",
        "--collector", CollectorPath(), "--library",           EmptyRuntime()};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = fork();
    if (pid_ == 0) {
      dup2(output[1], 1);
      dup2(errors[1], 2);
      execv(argv[0], argv.data());
      _exit(127);
    }
    output_.reset(output[0]);
    errors_.reset(errors[0]);
    writing_.reset(output[1]);
    close(errors[1]);
    fcntl(errors_.get(), F_SETFL, O_NONBLOCK);
  }
  ~UnreadService() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  bool PipeIsFull() const {
    pollfd waiter = {writing_.get(), POLLOUT, 0};
    return poll(&waiter, 1, 0) == 0;
  }
  // Bytes in the pipe.
  int Waiting() const {
    int bytes = 0;
    ioctl(output_.get(), FIONREAD, &bytes);
    return bytes;
  }
  bool EndsAfter(int signal_number, int* status) {
    kill(pid_, signal_number);
    return Eventually([&] {
      if (waitpid(pid_, status, WNOHANG) != pid_) return false;
      pid_ = -1;
      return true;
    });
  }

 private:
  pid_t pid_ = -1;
  UniqueFd output_, writing_, errors_;
};

class HostileOutputTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
  ExecutableDirectory directory_;
};

// Ctrl-C ends the service, although its recording goes into a pipe that is full.
TEST_F(HostileOutputTest, EndsWhenItsRecordingIsNotRead) {
  UnreadService service({"-o", "-", "-q"});
  ASSERT_TRUE(Eventually([&] { return service.Waiting() > 0; })) << "the header";
  // More than the pipe holds. The header only shows that the service has started.
  for (int i = 0; i < 20 && !service.PipeIsFull(); ++i) Neighbour(100'000).Finish();
  ASSERT_TRUE(service.PipeIsFull());
  // Meanwhile processes run as they would without a service.
  Neighbour second(20'000);
  second.Finish();
  int status = 0;
  ASSERT_TRUE(service.EndsAfter(SIGINT, &status));
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 1) << "the recording is incomplete";
}

// The same with the messages.
TEST_F(HostileOutputTest, EndsWhenItsMessagesAreNotRead) {
  UnreadService service({"-d", directory_.path(), "-o", "run", "--json"});
  ASSERT_TRUE(Eventually([&] { return service.Waiting() > 0; })) << "it is ready";
  for (int i = 0; i < 300 && !service.PipeIsFull(); ++i) {
    Adversary adversary("hostile_load", {"fork", "0.2"});
    ASSERT_TRUE(adversary.Wait().exited_with(0));
  }
  ASSERT_TRUE(service.PipeIsFull());
  Neighbour neighbour(20'000);
  neighbour.Finish();
  int status = 0;
  ASSERT_TRUE(service.EndsAfter(SIGINT, &status));
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  neighbour.ExpectComplete(ReadRecording(directory_.path() + "/run.rwa"));
}

class FailedStartTest : public HostileOutputTest {
 protected:
  Finished Start(std::vector<std::string> arguments) {
    std::vector<std::string> words = {WatcherPath(), "--auto", "--hold-timeout-msec",
                                      "10000",       "-d",     directory_.path(),
                                      "-o",          "run"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    return Child(words).Wait();
  }
  void ExpectNothingLeft() {
    EXPECT_FALSE(std::filesystem::exists(directory_.path() + "/run.rwa"));
  }
};

TEST_F(FailedStartTest, WithoutACollectorNoRecordingIsLeft) {
  const Finished finished = Start({"--collector", directory_.path() + "/nothing"});
  EXPECT_TRUE(finished.exited_with(3)) << finished.errors;
  ExpectNothingLeft();
}

TEST_F(FailedStartTest, AnotherUsersSocketIsLeftAlone) {
  const std::string path = directory_.path() + "/their.sock";
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(chown(path.c_str(), kAdversaryUid, kAdversaryUid), 0);
  const Finished finished =
      Start({"--collector", CollectorPath(), "--socket", path, "--duration-msec", "1"});
  EXPECT_TRUE(finished.exited_with(3)) << finished.errors;
  EXPECT_NE(finished.errors.find(absl::StrCat("user ", kAdversaryUid)),
            std::string::npos)
      << finished.errors;
  EXPECT_TRUE(std::filesystem::is_socket(path));
  ExpectNothingLeft();
}

// A process listens but does not accept, and its queue of connections is full.
TEST_F(FailedStartTest, AFullQueueOfConnectionsDoesNotHangTheStart) {
  const std::string path = directory_.path() + "/busy.sock";
  UniqueFd fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(listen(fd.get(), 0), 0);
  UniqueFd waiting(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  ASSERT_EQ(
      connect(waiting.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
      0);
  const Finished finished = Start({"--collector", CollectorPath(), "--socket", path});
  EXPECT_TRUE(finished.exited_with(3)) << finished.errors;
  EXPECT_TRUE(std::filesystem::is_socket(path));
  ExpectNothingLeft();
}

}  // namespace
}  // namespace rocattach::testing_support
