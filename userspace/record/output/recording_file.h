// One output of a run: a file, or a series of files if the recording is split.
#ifndef ROCATTACH_USERSPACE_RECORD_OUTPUT_RECORDING_FILE_H_
#define ROCATTACH_USERSPACE_RECORD_OUTPUT_RECORDING_FILE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "userspace/base/clock.h"
#include "userspace/record/output/recording_index.h"
#include "userspace/record/output/rotation_options.h"
#include "userspace/stream/writer.h"

namespace rocattach {

struct RecordingFileOptions {
  RotationOptions rotation;
  WriterOptions writer;
  // A file is complete and has its final name; `recording.file` is the whole path.
  std::function<void(IndexedRecording recording)> on_complete;
  // The wall clock may be set while a file is written; rotation and the order of files
  // do not depend on it.
  std::function<ClockSnapshot()> clock = CaptureClockSnapshot;
};

// A file of a split recording is named STEM.NNNNNN.rwa, and STEM.NNNNNN.rwa.partial
// until it is complete. Not thread-safe.
class RecordingFile {
 public:
  // Creates `path`.rwa, or the first file of a series. A name in use gets a number; a
  // series continues after the numbers that exist.
  static absl::StatusOr<std::unique_ptr<RecordingFile>> Open(
      const std::string& path, RecordingFileOptions options);
  // Wraps an open sink without a file of its own: standard output.
  static absl::StatusOr<std::unique_ptr<RecordingFile>> Wrap(
      std::unique_ptr<Sink> sink, RecordingFileOptions options);

  // The writer; the same one for as long as this object lives.
  StreamWriter* writer() { return writer_.get(); }
  // Writes what is due, and begins the next file when that is due.
  absl::Status Flush(uint64_t now_ns);
  absl::Status Close();

  // Name of the file that is being written.
  const std::string& name() const { return name_; }
  // Name of the file, or of the series, for users.
  std::string title() const;
  // Records that could not be written, in all files.
  uint64_t records_dropped() const;
  // Bytes written, in all files.
  uint64_t bytes() const { return bytes_before_ + writer_->stats().bytes; }

 private:
  explicit RecordingFile(RecordingFileOptions options) : options_(std::move(options)) {}
  absl::StatusOr<std::unique_ptr<Sink>> Create(const std::string& path);
  // Creates the next file of a series.
  absl::StatusOr<std::unique_ptr<Sink>> CreateNext();
  bool IsDue(uint64_t now_ns) const;
  absl::Status Rotate(uint64_t now_ns);
  // Gives a completed file its final name, and reports it.
  absl::Status Complete(const std::string& name, uint64_t begin_boot_ns,
                        const WriterStats& stats) const;

  const RecordingFileOptions options_;
  std::unique_ptr<StreamWriter> writer_;
  std::string stem_;             // empty: not split
  uint64_t number_ = 0;          // of the current file
  std::string name_;             // while the file is written
  uint64_t begin_boot_ns_ = 0;   // CLOCK_BOOTTIME
  uint64_t retry_ns_ = 0;        // CLOCK_BOOTTIME; after a failed rotation
  uint64_t dropped_before_ = 0;  // in earlier files
  uint64_t bytes_before_ = 0;    // likewise
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_RECORD_OUTPUT_RECORDING_FILE_H_
