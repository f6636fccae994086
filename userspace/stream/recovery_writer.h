// Second pass of a recovery: writes frames with new numbers, and counts losses.
#ifndef ROCATTACH_USERSPACE_STREAM_RECOVERY_WRITER_H_
#define ROCATTACH_USERSPACE_STREAM_RECOVERY_WRITER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "userspace/stream/recovery.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

// Bounds the memory of a recovery; realistic files have far fewer recordings.
inline constexpr size_t kMaxRecoveredRecordings = 1 << 16;

// Facts needed before a recording's first frame can be written.
struct RecordingFacts {
  bool begins_with_header = false;
  // Otherwise: a repeated header from later in the recording, as on the wire …
  std::string header_frame;
  // … or facts from key frames.
  std::string recording_id;
  v1::ClockSnapshot clock;
};

// Pass it to a decoder as the visitor, and every frame to OnFrame().
class RecoveryWriter : public StreamVisitor {
 public:
  // `facts` are in the order of recordings and must outlive the writer. `write` gets
  // about a megabyte at a time.
  RecoveryWriter(const std::vector<RecordingFacts>& facts,
                 std::function<absl::Status(absl::string_view)> write)
      : facts_(facts), write_(std::move(write)) {}

  void OnFrame(const FrameView& frame, absl::string_view payload, FrameFate fate);
  // Ends the last recording and writes what is left.
  absl::Status Finish();

  absl::Status status() const { return status_; }
  const RecoveryResult& result() const { return result_; }

  void OnRecording(const FrameContext& at, const v1::StreamHeader* header) override;
  void OnBatch(const FrameContext&, RecordKind kind, size_t records) override {
    records_[kind] += records;
  }
  void OnDamage(const Damage& damage) override;

 private:
  void WriteHeader(const RecordingFacts& facts);
  // Writes the end frame of the current recording: its own or a new one.
  void WriteEnd(const FrameView* frame, v1::StreamEnd end);
  // Writes an end frame that is computed from what was copied.
  void WriteMadeEnd();
  // Writes a message as a frame of the recorder's stream.
  void WriteMessage(uint8_t type, uint8_t flags,
                    const google::protobuf::Message& message);
  // Writes a whole frame, with the next sequence number of its stream.
  void WriteFrame(absl::string_view frame);

  const std::vector<RecordingFacts>& facts_;
  std::function<absl::Status(absl::string_view)> write_;
  absl::Status status_;
  std::string pending_;
  RecoveryResult result_;
  v1::Recovery lost_;  // losses in the current recording, or before the next one
  // The current recording.
  bool in_recording_ = false;
  v1::StreamEnd counts_;  // counts of what was copied, without the records
  PerRecordKind<uint64_t> records_;
  absl::flat_hash_map<uint32_t, uint32_t> sequences_;  // by stream
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_RECOVERY_WRITER_H_
