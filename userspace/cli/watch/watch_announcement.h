// The messages of rocattach-watch when it is ready.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_ANNOUNCEMENT_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_ANNOUNCEMENT_H_

#include <string>

#include "userspace/cli/watch/console_output.h"
#include "userspace/watch/discovery/library_scanner.h"
#include "userspace/watch/windows/hold_mode.h"

namespace rocattach {

// The state of a service that has just started.
struct WatchAnnouncement {
  HoldMode hold_mode = HoldMode::kNone;
  std::string hold_mode_reason;  // why it is not the best one; empty: it is
  bool realtime = false;         // windows are served with real-time priority
  const LibraryScan* libraries = nullptr;
  std::string output;           // the recording's name
  std::string metrics_address;  // empty: metrics are not served
  std::string danger;           // harm that the probes may do; empty: none
};

// Prints the hold mode, the library copies and where output goes.
void AnnounceWatcher(const WatchAnnouncement& watcher,
                     const WatchConsoleOptions& options, ConsoleOutput* out);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_ANNOUNCEMENT_H_
