// The index of completed recordings in a directory, and the deletion of old ones.
//
// DIRECTORY/rocattach-index.jsonl has one JSON object a line, the oldest file first. It
// is replaced atomically. Several runs, one after the other, share it.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_RECORDING_INDEX_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_RECORDING_INDEX_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"
#include "userspace/record/output/rotation_options.h"

namespace rocattach {

inline constexpr char kRecordingExtension[] = ".rwa";
inline constexpr char kRecordingIndexName[] = "rocattach-index.jsonl";

// One completed file.
struct IndexedRecording {
  std::string file;  // below the directory
  uint64_t bytes = 0;
  // Times of its beginning and its completion, CLOCK_REALTIME.
  uint64_t begin_ns = 0;
  uint64_t end_ns = 0;
  uint64_t processes = 0;
  uint64_t dispatches = 0;
  uint64_t copies = 0;
  uint64_t records_dropped = 0;  // not written, because of errors
};

// Not thread-safe.
class RecordingIndex {
 public:
  // Reads the index of earlier runs, without invalid lines and files that are gone.
  // Adds unfinished files of a series that killed services have left, and that no
  // process writes: they count, and are deleted, like the others.
  static absl::StatusOr<RecordingIndex> Open(const std::string& directory);

  // Adds a file, deletes the oldest ones beyond `limits`, and writes the index.
  absl::Status Add(IndexedRecording recording, const RotationOptions& limits);

  const std::vector<IndexedRecording>& recordings() const { return recordings_; }

 private:
  explicit RecordingIndex(UniqueFd directory, std::string path)
      : directory_(std::move(directory)), path_(std::move(path)) {}
  void Read();
  void AddLeftovers();
  void AddLeftoversIn(const std::string& folder);
  absl::Status Retain(const RotationOptions& limits);
  absl::Status Write() const;

  UniqueFd directory_;
  std::string path_;  // path of the directory, for messages
  std::vector<IndexedRecording> recordings_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_RECORDING_INDEX_H_
