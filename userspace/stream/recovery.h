// Copies the intact frames of a damaged file to one that readers accept without errors.
#ifndef ROCATTACH_USERSPACE_STREAM_RECOVERY_H_
#define ROCATTACH_USERSPACE_STREAM_RECOVERY_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "schemas/stream.pb.h"
#include "userspace/stream/decoder.h"

namespace rocattach {

// The result of a recovery, over all recordings of the file.
struct RecoveryResult {
  // Statistics of the file that was read.
  ReadStats read;
  // Size of the new file, including headers and ends that were added.
  uint64_t frames_written = 0;
  uint64_t bytes_written = 0;
  // Summed over the recordings. Losses noted by an earlier recovery are not included.
  v1::Recovery lost;
  uint64_t headers_made = 0;
  uint64_t ends_made = 0;

  // True if the new file lacks something that the old one should have had.
  bool incomplete() const {
    return read.damaged() || lost.frames_left_out() > 0 || headers_made > 0 ||
           ends_made > 0;
  }
};

// Reads the file `from` twice and writes its intact frames to `to`, which must not
// exist (ALREADY_EXISTS). Frames get new sequence numbers; a recording without its
// header or its end gets one, and the end records what was lost (v1::Recovery). A
// complete recording is copied unchanged. After an error, `to` does not exist. `stop`
// is called between reads; if it returns true, the result is CANCELLED.
absl::StatusOr<RecoveryResult> RecoverStream(const std::string& from,
                                             const std::string& to,
                                             const std::function<bool()>& stop);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_RECOVERY_H_
