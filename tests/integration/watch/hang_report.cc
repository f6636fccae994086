#include "tests/integration/watch/hang_report.h"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <system_error>

#include "tests/integration/watch/harness.h"
#include "userspace/base/file.h"
#include "userspace/base/unique_fd.h"

namespace rocattach::testing_support {
namespace {

// Not by a stream, which throws if the process ends while it is read.
std::string Contents(const std::filesystem::path& path) {
  return ReadFile(path, 1 << 20).value_or("");
}

// Reports the process and, recursively, those that it has started.
void ReportStacks(const std::string& pid) {
  const std::filesystem::path process = "/proc/" + pid;
  std::cerr << "hang: process " << pid << ": " << Contents(process / "cmdline") << "\n";
  std::string children;
  std::error_code gone;
  for (const auto& task : std::filesystem::directory_iterator(process / "task", gone)) {
    std::cerr << "hang: thread " << task.path().filename().string() << " "
              << Contents(task.path() / "comm") << Contents(task.path() / "stack");
    children += Contents(task.path() / "children");
  }
  std::cerr << Child({"timeout", "30", "gdb", "-batch", "-p", pid, "-ex",
                      "thread apply all backtrace 30"})
                   .Wait()
                   .output
            << std::endl;
  std::istringstream numbers(children);
  for (std::string child; numbers >> child;) ReportStacks(child);
}

}  // namespace

void ReportHang() {
  const std::string tid = std::to_string(gettid());
  std::istringstream numbers(Contents("/proc/self/task/" + tid + "/children"));
  for (std::string child; numbers >> child;) ReportStacks(child);
}

void AwaitReadable(int fd, bool* reported) {
  pollfd readable = {fd, POLLIN, 0};
  if (*reported || poll(&readable, 1, kHangMsec) != 0) return;
  *reported = true;
  ReportHang();
}

void AwaitEnd(pid_t pid, bool* reported) {
  const UniqueFd end(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (end.valid()) AwaitReadable(end.get(), reported);
}

}  // namespace rocattach::testing_support
