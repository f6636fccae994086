#include "userspace/watch/windows/hold_mode.h"

namespace rocattach {

absl::string_view HoldModeName(HoldMode mode) {
  switch (mode) {
    case HoldMode::kYielding:
      return "yielding";
    case HoldMode::kSignal:
      return "signal";
    case HoldMode::kNone:
      return "none";
  }
  return "unknown";
}

absl::string_view HoldModeHelp(HoldMode mode) {
  switch (mode) {
    case HoldMode::kYielding:
      return "the thread waits inside a sleepable uprobe; no signal, nothing that a "
             "parent or a shell can see";
    case HoldMode::kSignal:
      return "processes are seized when they map the library, and a private stop holds "
             "the thread; while seized they cannot be debugged";
    case HoldMode::kNone:
      return "windows are reported, not held";
  }
  return "";
}

}  // namespace rocattach
