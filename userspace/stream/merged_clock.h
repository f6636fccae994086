// The change that merging recordings made to the clock of one of them.
#ifndef ROCATTACH_USERSPACE_STREAM_MERGED_CLOCK_H_
#define ROCATTACH_USERSPACE_STREAM_MERGED_CLOCK_H_

#include <cstdint>
#include <optional>

#include "schemas/stream.pb.h"

namespace rocattach {

struct MergedClock {
  // Added to the recording's times by the merge.
  int64_t offset_ns = 0;
  // Largest error of the shifted times relative to those of the first recording.
  uint64_t error_ns = 0;
};

// Writes `clock` into the header of a recording, as arguments of the recorder. Each
// further merge of the recording adds another pair of arguments.
void AddMergedClock(const MergedClock& clock, v1::StreamHeader* header);

// The sum of all changes noted in the header; nothing if there was no merge.
std::optional<MergedClock> MergedClockOf(const v1::StreamHeader& header);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_MERGED_CLOCK_H_
