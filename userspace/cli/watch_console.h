// What rocattach-watch says while it runs: text for people, JSON lines for machines.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_CONSOLE_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_CONSOLE_H_

#include <stdio.h>

#include <cstdint>
#include <mutex>

#include "schemas/stream.pb.h"
#include "userspace/watch/watcher.h"

namespace rocattach {

struct WatchConsoleOptions {
  bool json = false;
  bool quiet = false;
  bool attach = false;  // the user wants attaches: windows let go deserve a word
  // A line that shows how things stand: not beside a command's own output.
  bool live = true;
  FILE* out = stderr;
};

// Thread-safe: the recorder's thread reports events, the main thread ticks.
class WatchConsole : public WatcherObserver {
 public:
  explicit WatchConsole(WatchConsoleOptions options);

  // At start: the hold's level, the library copies, where output goes.
  void Announce(const Watcher& watcher);
  // The live line, on a terminal only.
  void Tick(const RunTotals& totals);
  void Summarize(const RunResult& result);

  void OnVerdict(const v1::Process& process, const v1::WindowEvent& verdict) override;
  void OnEnd(const v1::Process& process, const v1::ProcessEnd& end,
             const v1::LossAccount& account) override;
  void OnNotBelievable(const v1::Process& process, const std::string& why) override;
  void OnSessionRefused(pid_t pid, const std::string& why) override;
  void OnLibraryChanged(const std::string& path, const std::string& why) override;

 private:
  // Removes the live line, so that other text can stand there.
  void ClearLiveLine();
  // What came of the session that the options name.
  void SummarizeSession(const RunResult& result);
  void PrintJson(const char* event, const std::string& body);

  WatchConsoleOptions options_;
  bool terminal_;
  std::mutex mutex_;
  bool live_line_shown_ = false;
  uint64_t last_dispatches_ = 0;
  uint64_t last_tick_ns_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_CONSOLE_H_
