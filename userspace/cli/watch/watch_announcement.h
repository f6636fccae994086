// What rocattach-watch says when it is ready.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_WATCH_ANNOUNCEMENT_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_WATCH_ANNOUNCEMENT_H_

#include "userspace/cli/watch/console_output.h"
#include "userspace/service/watcher.h"

namespace rocattach {

// The hold mode, the library copies, where output goes.
void AnnounceWatcher(const Watcher& watcher, const WatchConsoleOptions& options,
                     ConsoleOutput* out);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_WATCH_ANNOUNCEMENT_H_
