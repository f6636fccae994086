// Options for splitting a recording into files, and for keeping them.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_ROTATION_OPTIONS_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_ROTATION_OPTIONS_H_

#include <cstdint>

namespace rocattach {

// 0 means no limit.
struct RotationOptions {
  // The next file begins when the current one has this many bytes, or this age.
  uint64_t bytes = 0;
  uint64_t age_ns = 0;
  // Limits for completed files in the directory; beyond them, the oldest are deleted.
  uint32_t keep_files = 0;
  uint64_t keep_bytes = 0;

  bool splits() const { return bytes != 0 || age_ns != 0; }
  bool deletes() const { return keep_files != 0 || keep_bytes != 0; }
  // True if there is an index of completed files.
  bool indexes() const { return splits() || deletes(); }
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_ROTATION_OPTIONS_H_
