// The time for which a thread was held.
#ifndef ROCATTACH_USERSPACE_STREAM_HOLD_H_
#define ROCATTACH_USERSPACE_STREAM_HOLD_H_

#include <cstdint>

#include "schemas/stream.pb.h"

namespace rocattach {

// The one definition for logs, JSON, reports and metrics: from the probe hit to the
// release of the thread or, for a thread that was stopped without a probe, from the
// stop. Returns 0 if no thread was held, as in a process that was taken over, or if one
// of the times is not known.
uint64_t HoldNs(const v1::WindowEvent& window);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_HOLD_H_
