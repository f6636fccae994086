// A snapshot as JSON, for `rocattach top` and scripts.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_SNAPSHOT_JSON_H_
#define ROCATTACH_USERSPACE_TELEMETRY_SNAPSHOT_JSON_H_

#include <string>

#include "userspace/base/demangler.h"
#include "userspace/telemetry/snapshot.h"

namespace rocattach {

// One object, on one line. Times are in nanoseconds; all values are totals.
std::string SnapshotJson(const NodeSnapshot& snapshot, Demangler* demangler);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_SNAPSHOT_JSON_H_
