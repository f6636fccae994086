#include "userspace/record/window_state.h"

namespace rocattach {

v1::WindowState StateOf(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOpen:
      return v1::WINDOW_STATE_OPEN;
    case Verdict::kAttached:
      return v1::WINDOW_STATE_ATTACHED;
    case Verdict::kPassed:
      return v1::WINDOW_STATE_PASSED;
    case Verdict::kRefused:
      return v1::WINDOW_STATE_REFUSED;
    case Verdict::kMissed:
      return v1::WINDOW_STATE_MISSED;
  }
  return v1::WINDOW_STATE_UNSPECIFIED;
}

absl::string_view VerdictName(v1::WindowState state) {
  for (const Verdict verdict :
       {Verdict::kAttached, Verdict::kPassed, Verdict::kRefused, Verdict::kMissed}) {
    if (StateOf(verdict) == state) return VerdictName(verdict);
  }
  return VerdictName(Verdict::kOpen);
}

}  // namespace rocattach
