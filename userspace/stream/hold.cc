#include "userspace/stream/hold.h"

#include "userspace/base/clock.h"

namespace rocattach {

uint64_t HoldNs(const v1::WindowEvent& window) {
  // Without an attach, the thread leaves the probe by itself.
  const uint64_t end_ns =
      window.released_ns() != 0 ? window.released_ns() : window.hold_end_ns();
  switch (window.mode()) {
    case v1::WINDOW_MODE_HELD:
    case v1::WINDOW_MODE_SIGNALLED:
      return ElapsedNs(window.hit_ns(), end_ns);
    case v1::WINDOW_MODE_BLOCKED:
      return ElapsedNs(window.stopped_ns(), end_ns);
    default:
      return 0;
  }
}

}  // namespace rocattach
