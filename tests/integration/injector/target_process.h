// A child of the test that stands at its window.
#ifndef ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGET_PROCESS_H_
#define ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGET_PROCESS_H_

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "injector/attach.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// What the target can show of itself; equal before and after an attach.
struct TargetSnapshot {
  std::map<std::string, std::string> descriptors;  // number -> what it names
  std::vector<std::string> mappings;  // without the heap, the stack, the collector
  // Bytes of executable mappings of files, as a hash, by the mapping's line.
  std::map<std::string, size_t> code;
  std::string signals;  // pending, blocked, ignored, caught; number of threads
};

class TargetProcess {
 public:
  struct Options {
    std::string program;  // empty: the ordinary target
    std::string mode = "plain";
    // Run in the child before exec.
    std::function<void()> prepare;
  };

  TargetProcess() = default;
  TargetProcess(const TargetProcess&) = delete;
  TargetProcess& operator=(const TargetProcess&) = delete;
  // Kills and collects what is still there.
  ~TargetProcess();

  // Starts the program and reads its first line. False (and a test failure) if that
  // does not come.
  bool Start(const Options& options);
  bool Start(const std::string& mode) { return Start(Options{"", mode, nullptr}); }

  // Waits until the thread stands at the window (it prints its line a little earlier),
  // by looking with ptrace. False and a test failure if that does not come.
  bool WaitAtWindow() const;

  pid_t pid() const { return pid_; }
  pid_t tid() const { return tid_; }
  uint64_t window() const { return window_; }

  // A request for this target with the test collector.
  AttachRequest Request() const;
  // Tries until the thread stands at the window: it prints its line a little earlier.
  AttachOutcome Attach(const AttachRequest& request, LibraryCache* cache = nullptr);
  AttachOutcome Attach() { return Attach(Request()); }

  // Waits (up to some seconds) until the collector has reported; what it wrote.
  std::string WaitForReport() const;
  // What it has written so far.
  std::string Report() const;
  void ClearReport() const;

  // Lets the window end.
  void OpenWindow();
  // The next line of its output.
  std::string ReadLine();
  // OpenWindow, then waits for the end: output after the first line, and wait status.
  void Finish();
  // Waits for the end without opening the window.
  void Collect();
  const std::string& output() const { return output_; }
  int status() const { return status_; }
  // The target ended by itself, found its state intact and said so.
  bool Intact() const;

  char State() const;  // of the window's thread, as in /proc/PID/stat
  // Waits until State() is none of the stopped states 't' and 'T'.
  bool RunsAgain() const;
  // Waits until State() is `state`.
  bool WaitForState(char state) const;
  TargetSnapshot Snapshot() const;

 private:
  pid_t pid_ = 0;
  pid_t tid_ = 0;
  uint64_t window_ = 0;
  uint64_t flag_ = 0;
  UniqueFd stdout_;
  std::string report_path_;
  std::string output_;
  int status_ = -1;
};

// Paths that the build knows.
std::string CollectorPath();
std::string NotACollectorPath();
std::string TargetPath();
std::string WindowLibraryPath();  // that it is linked to
std::string StaticTargetPath();
std::string Spin32Path();
std::string FaultRunnerPath();
std::string BlockedCallsPath();
std::string ForeignThreadsPath();
std::string CancelledPath();
std::string ContextsPath();
std::string OwnMallocTargetPath();
std::string OwnMallocPath();

// A memfd with the contents of `path`, named as the service names its own: what is sent
// to targets that do not see the collector's file.
UniqueFd CollectorMemfd(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGET_PROCESS_H_
