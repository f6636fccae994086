// Writes the frames of one recording, and whatever must precede each of them: the
// stream header, a process's dictionary and its key frames.
#ifndef ROCATTACH_USERSPACE_STREAM_FRAME_WRITER_H_
#define ROCATTACH_USERSPACE_STREAM_FRAME_WRITER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "schemas/stream.pb.h"
#include "userspace/base/clock.h"
#include "userspace/stream/compression.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/process_stream.h"
#include "userspace/stream/record_kinds.h"
#include "userspace/stream/sink.h"

namespace rocattach {

struct WriterOptions {
  // zstd level of every frame; 0 is off; unset: 1 for files, off for pipes.
  std::optional<int> compression_level;
  // A batch is cut at this many bytes (before compression) …
  size_t batch_bytes = 64 << 10;
  // … or when a Flush() finds it this old.
  uint64_t batch_ns = 250'000'000;
  // After this many bytes, or this much time, a stream repeats everything known of it
  // before its next frame, so that a reader can join a running stream there.
  uint64_t key_frame_bytes = 4 << 20;
  uint64_t key_frame_ns = 30'000'000'000;
  // For the stream header.
  std::vector<std::string> recorder_arguments;
  // The source of times; tests replace it.
  std::function<ClockSnapshot()> clock = CaptureClockSnapshot;
};

// Counts of a writer so far.
struct WriterStats {
  uint64_t frames = 0;
  uint64_t bytes = 0;
  uint64_t streams = 0;
  PerRecordKind<uint64_t> records;  // written
  uint64_t frames_dropped = 0;      // could not be written (key frames are tried again)
  uint64_t records_dropped = 0;     // the records in them
};

// Part of StreamWriter, with the same rules for threads and errors.
class FrameWriter {
 public:
  FrameWriter(std::unique_ptr<Sink> sink, const WriterOptions& options);

  absl::Status WriteStreamHeader();
  // Writes the following frames to `sink`, as another recording. Counts begin again.
  void BeginFile(std::unique_ptr<Sink> sink);
  // Writes a frame of the recorder's own stream.
  absl::Status WriteRecorderFrame(v1::FrameType type, uint8_t flags,
                                  const google::protobuf::Message& message);

  // Writes whatever must come before the stream's next frame: the stream header, a key
  // frame that is due, new dictionary entries.
  absl::Status Prepare(ProcessStream* stream);
  absl::Status WriteKeyFrame(ProcessStream* stream);
  // Writes a message as a frame of a process if `prepared`, the result of Prepare(), is
  // OK; else marks a gap in the stream.
  absl::Status WriteMessage(ProcessStream* stream, const absl::Status& prepared,
                            v1::FrameType type, uint8_t flags,
                            const google::protobuf::Message& message);
  // Writes the pending records of one kind, and counts them.
  template <typename Kind>
  absl::Status WriteBatch(ProcessStream* stream);
  // Writes the pending records of all kinds.
  absl::Status CutBatches(ProcessStream* stream);

  // The latest known time, CLOCK_BOOTTIME.
  uint64_t now_ns() const { return now_ns_; }
  void AdvanceTo(uint64_t now_ns) { now_ns_ = std::max(now_ns_, now_ns); }

  void CountStream() { ++stats_.streams; }
  const WriterStats& stats() const { return stats_; }
  const Sink& sink() const { return *sink_; }
  v1::ClockSnapshot Clock();

 private:
  absl::Status WriteProcessFrame(ProcessStream* stream, v1::FrameType type,
                                 uint8_t flags, size_t records,
                                 absl::string_view payload);
  void MarkGap(ProcessStream* stream);
  // Compresses and writes one frame, and counts it if that succeeded.
  absl::Status WriteFrame(FrameHeader header, absl::string_view payload);

  std::unique_ptr<Sink> sink_;
  const WriterOptions& options_;
  std::unique_ptr<Compressor> compressor_;  // null: off
  WriterStats stats_;
  v1::StreamHeader header_;
  bool header_due_ = true;
  uint64_t header_frame_bytes_ = 0;  // stats_.bytes when the header was last written
  uint64_t header_ns_ = 0;
  uint32_t recorder_sequence_ = 0;
  uint64_t now_ns_ = 0;
  // Kept between frames so that writing one allocates nothing.
  std::string payload_, compressed_, frame_;
};

template <typename Kind>
absl::Status FrameWriter::WriteBatch(ProcessStream* stream) {
  auto* batch = stream->Encoder<Kind>(options_.batch_bytes);
  const size_t records = batch->count();
  const size_t operations = batch->operations();
  absl::Status status = Prepare(stream);
  batch->EncodeTo(&payload_);
  stream->batch_seen_ns = 0;
  if (status.ok()) {
    status = WriteProcessFrame(stream, Kind::kFrame, 0, records, payload_);
  } else {
    MarkGap(stream);
  }
  DeliveryCount& count = stream->counts[Kind::kKind];
  if (!status.ok()) {
    stats_.records_dropped += records;
    count.dropped += operations;
    return status;
  }
  count.delivered += operations;
  stats_.records[Kind::kKind] += records;
  return status;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_FRAME_WRITER_H_
