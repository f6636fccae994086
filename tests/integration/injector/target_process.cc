#include "tests/integration/injector/target_process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "injector/process/mapped_collector.h"
#include "tests/places.h"
#include "userspace/base/file.h"
#include "userspace/base/process.h"

namespace rocattach {
namespace {

constexpr auto kPatience = std::chrono::seconds(30);

bool WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

[[noreturn]] void Exec(const TargetProcess::Options& options,
                       const std::string& program, const std::string& report, int out) {
  if (dup2(out, STDOUT_FILENO) < 0) _exit(90);
  setenv("ROCATTACH_TEST_REPORT", report.c_str(), 1);
  if (options.prepare) options.prepare();
  execl(program.c_str(), program.c_str(), options.mode.c_str(), nullptr);
  _exit(91);
}

// True for a line of /proc/PID/maps that maps the collector.
bool IsOfCollector(const std::string& line) {
  for (const std::string& name :
       {CollectorPath(), NotACollectorPath(), std::string(ROCATTACH_COLLECTOR_MEMFD)}) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

}  // namespace

UniqueFd CollectorMemfd(const std::string& path) {
  UniqueFd memfd(memfd_create(ROCATTACH_COLLECTOR_NAME, MFD_CLOEXEC));
  auto contents = ReadFile(path, 1 << 20);
  if (!contents.ok() || !WriteAll(memfd.get(), *contents).ok()) memfd.reset();
  return memfd;
}

std::string CollectorPath() {
  return ROCATTACH_TEST_COLLECTOR;
}
std::string NotACollectorPath() {
  return ROCATTACH_TEST_NOT_A_COLLECTOR;
}
std::string TargetPath() {
  return ROCATTACH_TEST_TARGET;
}
std::string WindowLibraryPath() {
  return ROCATTACH_TEST_WINDOW_LIBRARY;
}
std::string StaticTargetPath() {
  return ROCATTACH_TEST_STATIC_TARGET;
}
std::string Spin32Path() {
  return ROCATTACH_TEST_SPIN32;
}
std::string FaultRunnerPath() {
  return ROCATTACH_TEST_FAULT_RUNNER;
}

std::string BlockedCallsPath() {
  return ROCATTACH_TEST_BLOCKED_CALLS;
}
std::string ForeignThreadsPath() {
  return ROCATTACH_TEST_FOREIGN_THREADS;
}
std::string CancelledPath() {
  return ROCATTACH_TEST_CANCELLED;
}
std::string ContextsPath() {
  return ROCATTACH_TEST_CONTEXTS;
}
std::string OwnMallocTargetPath() {
  return ROCATTACH_TEST_OWN_MALLOC_TARGET;
}
std::string OwnMallocPath() {
  return ROCATTACH_TEST_OWN_MALLOC;
}

TargetProcess::~TargetProcess() {
  if (pid_ != 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (!report_path_.empty()) unlink(report_path_.c_str());
}

bool TargetProcess::Start(const Options& options) {
  const std::string program = options.program.empty() ? TargetPath() : options.program;
  report_path_ = testing::TempDir() + "/rocattach-report-XXXXXX";
  UniqueFd report(mkostemp(report_path_.data(), O_CLOEXEC));
  // The target may run as another user.
  if (!report.valid() || fchmod(report.get(), 0666) != 0) return false;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return false;
  stdout_.reset(ends[0]);
  UniqueFd out(ends[1]);
  pid_ = fork();
  if (pid_ == 0) Exec(options, program, report_path_, out.get());
  out.reset();
  if (pid_ < 0) return false;
  std::string line = ReadLine();
  if (sscanf(line.c_str(), "ready window=%lx flag=%lx tid=%d", &window_, &flag_,
             &tid_) == 3) {
    return true;
  }
  ADD_FAILURE() << program << " said: " << line;
  return false;
}

std::string TargetProcess::ReadLine() {
  std::string line;
  char c;
  while (line.size() < 500) {
    pollfd ready = {stdout_.get(), POLLIN, 0};
    if (poll(&ready, 1, 30'000) <= 0) break;
    if (read(stdout_.get(), &c, 1) != 1 || c == '\n') break;
    line += c;
  }
  return line;
}

bool TargetProcess::WaitAtWindow() const {
  const bool there = WaitUntil([this] {
    user_regs_struct registers = {};
    iovec vector = {&registers, sizeof(registers)};
    if (ptrace(PTRACE_SEIZE, tid_, nullptr, nullptr) != 0) return false;
    ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr);
    waitpid(tid_, nullptr, __WALL);
    ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &vector);
    ptrace(PTRACE_DETACH, tid_, nullptr, nullptr);
    return registers.rip - window_ < 16;
  });
  EXPECT_TRUE(there) << "target " << pid_ << " does not reach its window";
  return there;
}

AttachRequest TargetProcess::Request() const {
  AttachRequest request;
  request.point.pid = pid_;
  request.point.tid = tid_;
  request.point.window_ip = window_;
  request.collector.path = CollectorPath();
  request.config.recording = 1;
  request.config.window_id = static_cast<uint64_t>(pid_) + 1000000;
  request.stop_timeout_msec = 5000;
  return request;
}

AttachOutcome TargetProcess::Attach(const AttachRequest& request, LibraryCache* cache) {
  AttachOutcome outcome;
  WaitUntil([&] {
    outcome = AttachOnOwnThread(request, cache);
    return outcome.reason != AttachReason::kNotAtWindow;
  });
  return outcome;
}

std::string TargetProcess::Report() const {
  std::ifstream in(report_path_);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void TargetProcess::ClearReport() const {
  EXPECT_EQ(truncate(report_path_.c_str(), 0), 0);
}

std::string TargetProcess::WaitForReport() const {
  WaitUntil([this] { return Report().find('\n') != std::string::npos; });
  return Report();
}

void TargetProcess::OpenWindow() {
  UniqueFd memory(
      open(("/proc/" + std::to_string(pid_) + "/mem").c_str(), O_RDWR | O_CLOEXEC));
  const int one = 1;
  if (pwrite(memory.get(), &one, sizeof(one), static_cast<off_t>(flag_)) !=
      static_cast<ssize_t>(sizeof(one))) {
    ADD_FAILURE() << "window flag of " << pid_ << ": errno " << errno;
  }
}

void TargetProcess::Finish() {
  OpenWindow();
  Collect();
}

void TargetProcess::Collect() {
  char chunk[4096];
  for (;;) {
    pollfd ready = {stdout_.get(), POLLIN, 0};
    if (poll(&ready, 1, 30'000) <= 0) {
      ADD_FAILURE() << "target " << pid_ << " does not end; state " << State();
      kill(pid_, SIGKILL);
      break;
    }
    ssize_t n = read(stdout_.get(), chunk, sizeof(chunk));
    if (n <= 0) break;
    output_.append(chunk, static_cast<size_t>(n));
  }
  EXPECT_EQ(waitpid(pid_, &status_, 0), pid_);
  pid_ = 0;
}

bool TargetProcess::Intact() const {
  return WIFEXITED(status_) && WEXITSTATUS(status_) == 7 &&
         output_.find("intact\n") != std::string::npos &&
         output_.find("changed") == std::string::npos;
}

char TargetProcess::State() const {
  std::ifstream in("/proc/" + std::to_string(pid_) + "/task/" + std::to_string(tid_) +
                   "/stat");
  std::string line;
  std::getline(in, line);
  size_t end = line.rfind(')');
  return end == std::string::npos || end + 2 >= line.size() ? '?' : line[end + 2];
}

bool TargetProcess::RunsAgain() const {
  return WaitUntil([this] { return State() != 't' && State() != 'T'; });
}

bool TargetProcess::WaitForState(char state) const {
  return WaitUntil([this, state] { return State() == state; });
}

TargetSnapshot TargetProcess::Snapshot() const {
  TargetSnapshot snapshot;
  const std::string root = "/proc/" + std::to_string(pid_);
  for (const auto& entry : std::filesystem::directory_iterator(root + "/fd")) {
    std::error_code error;
    snapshot.descriptors[entry.path().filename()] =
        std::filesystem::read_symlink(entry.path(), error).string();
  }
  std::ifstream maps(root + "/maps");
  UniqueFd memory(open((root + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin, end;
    char access[5] = "";
    if (sscanf(line.c_str(), "%lx-%lx %4s", &begin, &end, access) == 3 &&
        access[2] == 'x' && line.find('/') != std::string::npos &&
        !IsOfCollector(line)) {
      std::string bytes(end - begin, '\0');
      if (pread(memory.get(), bytes.data(), bytes.size(), static_cast<off_t>(begin)) !=
          static_cast<ssize_t>(bytes.size())) {
        ADD_FAILURE() << "cannot read " << line;
      }
      snapshot.code[line] = std::hash<std::string>()(bytes);
    }
    if (line.find("[heap]") == std::string::npos &&
        line.find("[stack]") == std::string::npos && !IsOfCollector(line)) {
      snapshot.mappings.push_back(line);
    }
  }
  std::ifstream status(root + "/task/" + std::to_string(tid_) + "/status");
  for (std::string line; std::getline(status, line);) {
    // SigQ describes the user, not the process.
    for (const char* name :
         {"SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "Threads"}) {
      if (line.rfind(name, 0) == 0) snapshot.signals += line + "\n";
    }
  }
  return snapshot;
}

}  // namespace rocattach
