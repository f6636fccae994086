// A child of the test whose thread is at its window.
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

// Observable state of the target; equal before and after an attach.
struct TargetSnapshot {
  std::map<std::string, std::string> descriptors;  // number -> what it refers to
  std::vector<std::string> mappings;  // without the heap, the stack, the collector
  // A hash of the bytes of each executable file mapping, by the mapping's line.
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
  // Kills and reaps the process if it still exists.
  ~TargetProcess();

  // Starts the program and reads its first line. False (and a test failure) if there is
  // none.
  bool Start(const Options& options);
  bool Start(const std::string& mode) { return Start(Options{"", mode, nullptr}); }

  // Waits until the thread is at the window, according to ptrace (the target prints its
  // line a little earlier). False and a test failure if it does not get there.
  bool WaitAtWindow() const;

  pid_t pid() const { return pid_; }
  pid_t tid() const { return tid_; }
  uint64_t window() const { return window_; }

  // A request for this target with the test collector.
  AttachRequest Request() const;
  // Retries until the thread is at the window: its line is printed a little earlier.
  AttachOutcome Attach(const AttachRequest& request, LibraryCache* cache = nullptr);
  AttachOutcome Attach() { return Attach(Request()); }

  // Waits (up to some seconds) until the collector has reported; returns the report.
  std::string WaitForReport() const;
  // Returns what the collector has written so far.
  std::string Report() const;
  void ClearReport() const;

  // Lets the window end.
  void OpenWindow();
  // Reads the next line of its output.
  std::string ReadLine();
  // Calls OpenWindow() and waits for the end; keeps further output and the wait status.
  void Finish();
  // Waits for the end without opening the window.
  void Collect();
  const std::string& output() const { return output_; }
  int status() const { return status_; }
  // True if the target ended by itself, and found and reported its state to be intact.
  bool Intact() const;

  char State() const;  // the window thread's, as in /proc/PID/stat
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

// Paths that are set at build time.
std::string CollectorPath();
std::string NotACollectorPath();
std::string TargetPath();
std::string WindowLibraryPath();  // the target is linked to it
std::string StaticTargetPath();
std::string Spin32Path();
std::string FaultRunnerPath();
std::string BlockedCallsPath();
std::string ForeignThreadsPath();
std::string CancelledPath();
std::string ContextsPath();
std::string OwnMallocTargetPath();
std::string OwnMallocPath();

// Makes a memfd with the contents of `path`, with the name that the service uses. It
// can be sent to targets that do not see the collector's file.
UniqueFd CollectorMemfd(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_INTEGRATION_INJECTOR_TARGET_PROCESS_H_
