// What rocattach-watch prints while it runs: text for users, JSON lines for programs.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_CONSOLE_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_CONSOLE_H_

#include <stdio.h>

#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "schemas/stream.pb.h"
#include "userspace/cli/terminal/line_output.h"
#include "userspace/cli/terminal/log_line.h"
#include "userspace/service/watcher.h"

namespace rocattach {

struct WatchConsoleOptions {
  bool json = false;  // events for programs, instead of the log
  LogFormat log_format = LogFormat::kText;
  bool quiet = false;
  bool attach = false;  // the user wants attaches: windows let go are reported
  // Of processes that pass, only the first for each reason is reported.
  bool passed_once = false;
  // A status line: not together with a command's own output.
  bool live = true;
  uint32_t lines_per_second = 0;  // about one user's processes; 0: no limit
  FILE* out = stderr;
};

// Thread-safe: the recorder's thread reports events, the main thread ticks.
class WatchConsole : public WatcherObserver {
 public:
  explicit WatchConsole(WatchConsoleOptions options);
  ~WatchConsole() override;

  // At start: the hold mode, the library copies, where output goes.
  void Announce(const Watcher& watcher);
  // The live line, on a terminal only.
  void Tick(const RunTotals& totals);
  void Summarize(const RunResult& result);

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override;
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override;
  void OnNotBelievable(const v1::Process& process, const std::string& why) override;
  void OnRecordingPaused(const absl::Status& why) override;
  void OnRecordingResumed(uint64_t records_lost) override;
  void OnSampling(const SamplingLevel& level, const std::string& why) override;
  void OnSessionRefused(pid_t pid, const std::string& why) override;
  void OnSessionLeftOut(pid_t pid, const std::vector<LeftOut>& left_out) override;
  void OnPeriodsSkipped(pid_t pid, uint64_t periods, const std::string& text) override;
  void OnNotAttached(pid_t pid, const absl::Status& why) override;
  void OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) override;
  void OnMetricsPush(const absl::Status& state) override;
  void OnProfilePush(const absl::Status& state) override;
  void OnLibraryChanged(const std::string& path, const std::string& why) override;
  void OnSourceFailed(const std::string& source, const std::string& why) override;

 private:
  // Clears the live line, so that other text can be printed there.
  void ClearLiveLine() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports suppressed and lost lines.
  void ReportLeftOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True for the first process with this text about it; others are counted.
  bool IsFirst(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What was not seen of processes with new copies of the runtime.
  void SummarizeMissed(const MissedWindows& missed)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The result of the session that the options define.
  void SummarizeSession(const RunResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The totals of the run, to programs.
  void SummarizeJson(const RunResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Kernel events, windows and numbers that are missing from the result.
  void SummarizeLosses(const RunResult& result) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Pushes of `what` begin to fail, or are accepted again; `loss` says what becomes of
  // what is missing.
  void SayPush(const std::string& what, const char* loss, const absl::Status& state)
      ABSL_LOCKS_EXCLUDED(mutex_);
  // An entry of the log.
  void Say(const LogEntry& entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Say(LogLevel level, absl::string_view event, std::string message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    Say({.level = level, .event = event, .message = std::move(message)});
  }
  // An error on standard error, regardless of the other output.
  void SayError(absl::string_view event, std::string message)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Print(const char* format, ...) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_)
      __attribute__((format(printf, 2, 3)));

  const WatchConsoleOptions options_;
  const bool terminal_;
  absl::Mutex mutex_;
  // Its reader must not hold up the service.
  LineOutput out_ ABSL_GUARDED_BY(mutex_);
  uint64_t lines_lost_reported_ ABSL_GUARDED_BY(mutex_) = 0;
  // What has been said about processes that are left alone, and how many more there
  // were of which the same is true.
  std::set<std::string> said_ ABSL_GUARDED_BY(mutex_);
  uint64_t passed_unsaid_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t refused_unsaid_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t session_refusals_unsaid_ ABSL_GUARDED_BY(mutex_) = 0;
  // Standard error, where that is another one.
  LineOutput errors_ ABSL_GUARDED_BY(mutex_){2};
  UserRate lines_ ABSL_GUARDED_BY(mutex_);
  bool live_line_shown_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t last_dispatches_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t last_tick_ns_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_CONSOLE_H_
