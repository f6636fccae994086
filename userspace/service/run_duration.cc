#include "userspace/service/run_duration.h"

#include <algorithm>

namespace rocattach {

uint64_t RunDuration::BeganNs(uint64_t now_ns, uint64_t first_attach_ns, bool ready) {
  if (began_ns_ != 0) return began_ns_;
  const uint64_t latest_ns =
      first_attach_ns == 0 ? UINT64_MAX : first_attach_ns + kMostNs;
  if (ready || now_ns >= latest_ns) began_ns_ = std::min(now_ns, latest_ns);
  return began_ns_;
}

}  // namespace rocattach
