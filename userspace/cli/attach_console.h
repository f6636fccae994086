// The output of `rocattach attach`, and the outcome for each process.
#ifndef ROCATTACH_USERSPACE_CLI_ATTACH_CONSOLE_H_
#define ROCATTACH_USERSPACE_CLI_ATTACH_CONSOLE_H_

#include <stdio.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "schemas/stream.pb.h"
#include "userspace/cli/attach_output.h"
#include "userspace/cli/attach_result.h"
#include "userspace/cli/said_reasons.h"
#include "userspace/cli/terminal/log_line.h"
#include "userspace/service/watcher.h"

namespace rocattach {

struct AttachConsoleOptions {
  bool json = false;
  LogFormat log_format = LogFormat::kText;
  bool quiet = false;
  bool recording = true;  // false: --no-recording
  bool announce = false;  // --announce: a line in each process's standard error
  bool live = true;       // show a status line (not beside a command's own output)
  bool children = false;  // descendants of the named processes are recorded as well
  std::set<pid_t> named;  // processes named by the user
  FILE* out = stderr;
};

// Thread-safe.
class AttachConsole : public WatcherObserver {
 public:
  explicit AttachConsole(const AttachConsoleOptions& options)
      : options_(options),
        terminal_(options.live && isatty(fileno(options.out)) != 0),
        out_(options.out, options.log_format) {}

  // Reports a process that is known not to be attachable before anything starts.
  void Refuse(pid_t pid, const absl::Status& why) { OnNotAttached(pid, why); }
  // Sets the processes to be attached to: "ready" waits for a verdict on each.
  void Expect(const std::vector<ProcessId>& processes) ABSL_LOCKS_EXCLUDED(mutex_);
  // Reports that the recording could not start, so nothing was attached to.
  void ReportFailure(const absl::Status& why) ABSL_LOCKS_EXCLUDED(mutex_);
  // Sets the number of processes that have answered whether they do what the session
  // requests: "ready" waits for the answer of each attached process.
  void SetSessionAnswers(uint64_t answers) ABSL_LOCKS_EXCLUDED(mutex_);
  // Updates the live line, on a terminal only; prints "ready" when it is due.
  void Tick(const RunTotals& totals) ABSL_LOCKS_EXCLUDED(mutex_);
  // After the run: prints one result for each process.
  AttachResult Summarize(const RunResult& result) ABSL_LOCKS_EXCLUDED(mutex_);
  // Prints the last event for programs. `converted`: status of the requested outputs.
  void PrintEnd(const RunResult& result, AttachResult outcome,
                const absl::Status& converted) ABSL_LOCKS_EXCLUDED(mutex_);
  // True if every requested process has a verdict.
  bool decided() const ABSL_LOCKS_EXCLUDED(mutex_);
  // True if a process is attached and has not ended.
  bool any_attached() const ABSL_LOCKS_EXCLUDED(mutex_);

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnNotBelievable(const v1::Process& process, const std::string& why) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnUnseenWork(const v1::Process& process, const std::string& why) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRecordingPaused(const absl::Status& why) override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRecordingResumed(uint64_t records_lost) override ABSL_LOCKS_EXCLUDED(mutex_);
  // An attach has no budget.
  void OnSampling(const SamplingLevel&, const std::string&) override {}
  void OnSessionRefused(pid_t pid, const std::string& why) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnSessionLeftOut(pid_t pid, const std::vector<LeftOut>& left_out) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnPeriodsSkipped(pid_t pid, uint64_t periods, const std::string& text) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnNotAttached(pid_t pid, const absl::Status& why) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnRunningDone() override ABSL_LOCKS_EXCLUDED(mutex_);
  void OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) override
      ABSL_LOCKS_EXCLUDED(mutex_);
  void OnLibraryChanged(const std::string& path, const std::string& why) override;

 private:
  size_t Awaited() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Writes the line to the process's standard error; reports it if that fails.
  void Announce(const ProcessResult& result, absl::string_view line)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnnounceAttach(ProcessResult* result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void AnnounceDetach(const ProcessResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayFiles(const std::vector<std::string>& files)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports processes that are still waited for when the recording ends.
  void GiveUpAwaited() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PrintNotAttached(pid_t pid, const absl::Status& why)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Decided() const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  // Prints "ready" once each process has a verdict and has answered the session.
  void PrintReady() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttachResult SummarizeOne(pid_t pid, const ProcessResult& result)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  AttachResult SummarizeAll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The result of the process that currently has this ID.
  ProcessResult& Current(pid_t pid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const AttachConsoleOptions options_;
  const bool terminal_;
  mutable absl::Mutex mutex_;
  AttachOutput out_ ABSL_GUARDED_BY(mutex_);
  std::map<pid_t, ProcessResult> results_ ABSL_GUARDED_BY(mutex_);
  // Results of former processes with the same ID: ended by exec, or the ID has been
  // reused.
  std::vector<std::pair<pid_t, ProcessResult>> former_ ABSL_GUARDED_BY(mutex_);
  SaidReasons said_ ABSL_GUARDED_BY(mutex_);
  bool running_done_ ABSL_GUARDED_BY(mutex_) = false;
  bool ready_printed_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t attached_ ABSL_GUARDED_BY(mutex_) = 0;  // verdicts "attached"
  uint64_t session_answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_ATTACH_CONSOLE_H_
