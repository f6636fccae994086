// Merges several recordings into one file whose times are all on one clock.
#ifndef ROCATTACH_USERSPACE_STREAM_MERGE_H_
#define ROCATTACH_USERSPACE_STREAM_MERGE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "schemas/stream.pb.h"
#include "userspace/stream/alignment.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

struct MergeOptions {
  // Maximum difference that is assumed between the machines' times of day.
  uint64_t sync_error_ns = 1'000'000;
};

// One recording of the new file.
struct MergedRecording {
  std::string path;
  v1::StreamHeader header;  // as it was before the merge
  Alignment alignment;      // to the first recording's clock
  // Largest error of its times relative to the first recording's: 0 on the same clock,
  // otherwise the sync error plus the drift of both clocks while they were recorded.
  uint64_t error_ns = 0;
};

struct MergeResult {
  std::vector<MergedRecording> recordings;
  ReadStats read;  // statistics of all inputs
  uint64_t bytes_written = 0;
  // Frames that could not be shifted, and the records in them.
  uint64_t frames_left_out = 0, records_left_out = 0;

  // True if the new file lacks something that the old ones should have contained.
  bool incomplete() const {
    return read.damaged() || frames_left_out > 0 ||
           read.recordings_ended < read.recordings;
  }
};

// Reads the files `from` twice and writes their intact frames to `to`, which must not
// exist (ALREADY_EXISTS). All recordings get the first one's clock and boot id and are
// otherwise unchanged; their headers record the change (AddMergedClock()). Returns
// INVALID_ARGUMENT if a file is not a recording, or contains a recording that has no
// beginning or that was given already. After an error, `to` does not exist. `stop` is
// called between reads; if it returns true, the result is CANCELLED.
absl::StatusOr<MergeResult> MergeStreams(const std::vector<std::string>& from,
                                         const std::string& to,
                                         const MergeOptions& options,
                                         const std::function<bool()>& stop);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_MERGE_H_
