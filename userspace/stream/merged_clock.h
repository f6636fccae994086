// What merging recordings did to the clock of one of them.
#ifndef ROCATTACH_USERSPACE_STREAM_MERGED_CLOCK_H_
#define ROCATTACH_USERSPACE_STREAM_MERGED_CLOCK_H_

#include <cstdint>
#include <optional>

#include "schemas/stream.pb.h"

namespace rocattach {

struct MergedClock {
  // Was added to its times.
  int64_t offset_ns = 0;
  // Largest error of its times relative to those of the first recording.
  uint64_t error_ns = 0;
};

// Writes it into the header of a recording, as arguments of the recorder. A recording
// that is merged again gets further ones.
void AddMergedClock(const MergedClock& clock, v1::StreamHeader* header);

// The sum of all that was written into the header; nothing if it was not merged.
std::optional<MergedClock> MergedClockOf(const v1::StreamHeader& header);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_MERGED_CLOCK_H_
