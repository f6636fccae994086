// Second pass of a recovery: frames with new numbers, and what was lost.
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

// Bounds the memory of a recovery; files of this many recordings are not made by `cat`.
inline constexpr size_t kMaxRecoveredRecordings = 1 << 16;

// What has to be known before a recording's first frame can be written.
struct RecordingFacts {
  bool begins_with_header = false;
  // Otherwise: a repeated header from further behind, as on the wire …
  std::string header_frame;
  // … or what key frames say.
  std::string recording_id;
  v1::ClockSnapshot clock;
};

// Give it to a decoder as visitor, and every frame to OnFrame().
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
  // The end of the current recording: the one that it had, or one that is made.
  void WriteEnd(const FrameView* frame, v1::StreamEnd end);
  // One that is made from what is here.
  void WriteMadeEnd();
  // A message as a frame of the recorder's stream.
  void WriteMessage(uint8_t type, uint8_t flags,
                    const google::protobuf::Message& message);
  // A whole frame, with the next number of its stream.
  void WriteFrame(absl::string_view frame);

  const std::vector<RecordingFacts>& facts_;
  std::function<absl::Status(absl::string_view)> write_;
  absl::Status status_;
  std::string pending_;
  RecoveryResult result_;
  v1::Recovery lost_;  // of the current recording, or before the next one
  // The current recording.
  bool in_recording_ = false;
  v1::StreamEnd counts_;  // what is here of it, without the records
  PerRecordKind<uint64_t> records_;
  absl::flat_hash_map<uint32_t, uint32_t> sequences_;  // by stream
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_RECOVERY_WRITER_H_
