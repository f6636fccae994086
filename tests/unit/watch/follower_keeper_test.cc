// Followers that are kept stopped while a window is open.
#include "userspace/watch/windows/follower_keeper.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include "injector/process/thread_status.h"
#include "userspace/base/clock.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {
namespace {

constexpr int kPatienceMsec = 30'000;

// A pipe of which both ends are closed by an exec.
struct Pipe {
  Pipe() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  UniqueFd read_end, write_end;
};

bool IsReadable(const UniqueFd& fd) {
  pollfd ready = {fd.get(), POLLIN, 0};
  return poll(&ready, 1, kPatienceMsec) == 1;
}

void* SayTidAndWait(void* fd) {
  const auto tid = static_cast<pid_t>(syscall(SYS_gettid));
  if (write(*static_cast<int*>(fd), &tid, sizeof(tid)) != sizeof(tid)) _exit(90);
  for (;;) pause();
}

// A process with a second thread. Its first thread calls exec when told to.
class TwoThreads {
 public:
  TwoThreads() : pid_(fork()) {
    if (pid_ == 0) Run();
    says_.write_end.reset();
    if (!IsReadable(says_.read_end) ||
        read(says_.read_end.get(), &second_, sizeof(second_)) != sizeof(second_)) {
      ADD_FAILURE() << "the process does not start";
    }
  }
  ~TwoThreads() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  pid_t pid() const { return pid_; }
  pid_t second() const { return second_; }
  void Exec() { EXPECT_EQ(write(told_.write_end.get(), "x", 1), 1); }
  // True once the exec has closed the process's end of the pipe.
  bool HasExecuted() const { return IsReadable(says_.read_end); }

 private:
  [[noreturn]] void Run() {
    int fd = says_.write_end.get();
    pthread_t thread;
    char byte;
    if (pthread_create(&thread, nullptr, SayTidAndWait, &fd) != 0) _exit(91);
    if (read(told_.read_end.get(), &byte, 1) != 1) _exit(92);
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(93);
  }

  Pipe says_, told_;
  const pid_t pid_;
  pid_t second_ = 0;
};

bool WaitForState(pid_t pid, pid_t tid, char state) {
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(kPatienceMsec);
  while (std::chrono::steady_clock::now() < deadline) {
    const auto status = ReadThreadStatus(pid, tid);
    if (status.ok() && status->state == state) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

// An exec waits until the tracers of all other threads have noticed those threads' end.
TEST(FollowerKeeperTest, AnExecBesideAKeptThreadDoesNotWaitForTheWindow) {
  constexpr uint32_t kLimitMsec = 10 * kPatienceMsec;
  TwoThreads process;
  FollowerKeeper keeper([](const rocattach_event&) { return true; }, kLimitMsec);
  rocattach_event event = {};
  event.pid = static_cast<uint32_t>(process.pid());
  event.tid = static_cast<uint32_t>(process.second());
  event.time_ns = BootNs();
  keeper.Add(event);
  ASSERT_TRUE(WaitForState(process.pid(), process.second(), 't'));
  process.Exec();
  EXPECT_TRUE(process.HasExecuted()) << "while the window is open";
  keeper.Stop();
}

// Keepers are reused, so there are as many as there once were followed processes.
TEST(FollowerKeeperTest, OnlyARunningKeeperHasADescriptor) {
  const auto descriptors = [] {
    namespace fs = std::filesystem;
    return std::distance(fs::directory_iterator("/proc/self/fd"),
                         fs::directory_iterator());
  };
  const auto before = descriptors();
  FollowerKeeper keeper([](const rocattach_event&) { return false; }, kPatienceMsec);
  EXPECT_EQ(descriptors(), before);
  keeper.Add({});
  keeper.Stop();
  EXPECT_EQ(descriptors(), before);
}

}  // namespace
}  // namespace rocattach
