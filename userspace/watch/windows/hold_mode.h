// Ways to hold the thread that opened a window until the attach is done.
#ifndef ROCATTACH_USERSPACE_WATCH_WINDOWS_HOLD_MODE_H_
#define ROCATTACH_USERSPACE_WATCH_WINDOWS_HOLD_MODE_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace rocattach {

// Hold modes, best first.
enum class HoldMode : uint8_t {
  kYielding = 0,  // sleepable uprobe: the thread yields inside the probe
  kSignal = 1,    // thread-directed stop of a thread that was seized beforehand
  kNone = 2,      // windows are reported only
};
absl::string_view HoldModeName(HoldMode mode);
// A sentence that explains the hold mode to users.
absl::string_view HoldModeHelp(HoldMode mode);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_WINDOWS_HOLD_MODE_H_
