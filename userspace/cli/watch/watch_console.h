// The output of rocattach-watch while it runs: text for users, JSON lines for programs.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_CONSOLE_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_CONSOLE_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "schemas/stream.pb.h"
#include "userspace/cli/watch/console_output.h"
#include "userspace/cli/watch/live_line.h"
#include "userspace/cli/watch/watch_summary.h"
#include "userspace/service/watcher.h"

namespace rocattach {

// Reports what happens to each process, without repetitions; other classes print the
// beginning, the live line and the summary. Thread-safe: the recorder's thread reports
// events, the main thread ticks.
class WatchConsole : public WatcherObserver {
 public:
  explicit WatchConsole(WatchConsoleOptions options);

  // At the start: prints the hold mode, the library copies and where output goes.
  void Announce(const Watcher& watcher);
  // Updates the live line, on a terminal only.
  void Tick(const RunTotals& totals);
  void Summarize(const RunResult& result);

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override;
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override;
  void OnNotBelievable(const v1::Process& process, const std::string& why) override;
  void OnUnseenWork(const v1::Process& process, const std::string& why) override;
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
  // Reports suppressed and lost lines.
  void ReportLeftOut() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // True the first time a text is reported; callers only count further processes.
  bool IsFirst(const std::string& text) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Reports that pushes of `what` begin to fail, or are accepted again; `loss` is the
  // text about data that could not be pushed.
  void SayPush(const std::string& what, const char* loss, const absl::Status& state)
      ABSL_LOCKS_EXCLUDED(mutex_);

  const WatchConsoleOptions options_;
  absl::Mutex mutex_;
  // Never blocks: a slow reader must not delay the service.
  ConsoleOutput out_ ABSL_GUARDED_BY(mutex_);
  LiveLine live_line_ ABSL_GUARDED_BY(mutex_);
  // Reasons already reported for processes that are left alone, and the number of other
  // processes with the same reasons.
  std::set<std::string> said_ ABSL_GUARDED_BY(mutex_);
  UnnamedCounts unnamed_ ABSL_GUARDED_BY(mutex_);
  UserRate lines_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_CONSOLE_H_
