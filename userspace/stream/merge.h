// Several recordings as one file whose times are those of one clock.
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
  // How far the machines' times of day may be apart from each other.
  uint64_t sync_error_ns = 1'000'000;
};

// One recording of the new file.
struct MergedRecording {
  std::string path;
  v1::StreamHeader header;  // as it was
  Alignment alignment;      // with the first one
  // Largest error of its times relative to those of the first one: 0 on the same clock,
  // else the sync error and what both clocks drifted while they were recorded.
  uint64_t error_ns = 0;
};

struct MergeResult {
  std::vector<MergedRecording> recordings;
  ReadStats read;  // of all inputs
  uint64_t bytes_written = 0;
  // Frames that could not be shifted, and the records in them.
  uint64_t frames_left_out = 0, records_left_out = 0;

  // The new file lacks something that the old ones should have had.
  bool incomplete() const {
    return read.damaged() || frames_left_out > 0 ||
           read.recordings_ended < read.recordings;
  }
};

// Reads the files `from` twice and writes their intact frames to `to`, which must not
// exist (ALREADY_EXISTS). All recordings get the clock and the boot of the first one,
// and keep everything else; their headers say what was done (AddMergedClock()).
// INVALID_ARGUMENT if a file is no recording, has none with
// its beginning, or contains one that is there already. On an error, `to` does not
// exist. `stop` is called between reads; true returns CANCELLED.
absl::StatusOr<MergeResult> MergeStreams(const std::vector<std::string>& from,
                                         const std::string& to,
                                         const MergeOptions& options,
                                         const std::function<bool()>& stop);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_MERGE_H_
