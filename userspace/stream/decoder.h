// Decodes bytes for a visitor: frames, decompression, sequence numbers, messages.
#ifndef ROCATTACH_USERSPACE_STREAM_DECODER_H_
#define ROCATTACH_USERSPACE_STREAM_DECODER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "userspace/stream/compression.h"
#include "userspace/stream/frame_scanner.h"
#include "userspace/stream/record_counts.h"
#include "userspace/stream/record_kinds.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

// Maximum number of streams per recording whose sequence numbers are checked; further
// streams are read without checks.
inline constexpr size_t kMaxTrackedStreams = 1 << 20;

// The result of reading, over all files so far.
struct ReadStats {
  uint64_t bytes = 0;
  uint64_t frames = 0;  // intact and understood
  uint64_t recordings = 0;
  uint64_t recordings_ended = 0;  // with their end frame
  PerRecordKind<uint64_t> records;
  // Damage.
  uint64_t skipped_bytes = 0;
  uint64_t skipped_ranges = 0;
  uint64_t truncated_bytes = 0;  // the part of skipped_bytes at the end of an input
  uint64_t missing_frames = 0;   // found by sequence numbers
  uint64_t lost_records = 0;     // from headers of damaged frames: a lower bound
  uint64_t undecodable_frames = 0;
  uint64_t unknown_frames = 0;  // from a newer version

  // True if something that was written is missing. A recording that has no end yet, or
  // was joined in the middle, is not damaged.
  bool damaged() const {
    return skipped_bytes > 0 || missing_frames > 0 || undecodable_frames > 0;
  }
};

// Outcome of decoding an intact frame.
enum class FrameFate {
  kUnderstood,
  kUnknown,      // from a newer version
  kUndecodable,  // its payload is invalid
};

// Push bytes in; the visitor is called from within Feed() and FinishInput(). Memory is
// bounded for any input.
class StreamDecoder {
 public:
  // Called for every intact frame, after the visitor was called for its contents. The
  // payload is uncompressed, and empty if the frame is not kUnderstood.
  using FrameObserver = std::function<void(const FrameContext&, const FrameView&,
                                           absl::string_view payload, FrameFate)>;

  // `visitor` must outlive the decoder.
  explicit StreamDecoder(StreamVisitor* visitor);

  void Feed(absl::string_view bytes);
  // The input ends here. Another may follow, starting a new file.
  void FinishInput();
  // The same for an input that is abandoned early: neither a partly read frame nor a
  // missing end counts as damage.
  void AbandonInput();

  void set_frame_observer(FrameObserver observer) { observer_ = std::move(observer); }

  const ReadStats& stats() const { return stats_; }
  // True if the current recording's end frame was read; nothing more is expected.
  bool recording_ended() const { return in_recording_ && recording_ended_; }
  // Number of bytes that wait for the rest of their frame.
  size_t pending_bytes() const { return scanner_.pending_bytes(); }

 private:
  // State kept for each stream.
  struct StreamState {
    uint32_t next_sequence = 0;
    // Everything in the stream so far has been read: key frames contain nothing new.
    bool complete = false;
    // `complete` was true at some time.
    bool heard = false;
    // Number of consecutive parts of the current key frame that were read.
    uint32_t key_parts = 0;
  };

  void HandleFrame(const FrameView& frame);
  void Observe(const FrameView& frame, absl::string_view payload,
               FrameFate fate) const {
    if (observer_) observer_(context_, frame, payload, fate);
  }
  absl::Status Uncompress(const FrameView& frame, absl::string_view* payload);
  absl::Status HandlePayload(const FrameView& frame, absl::string_view payload);
  // Determines the frame's recording; begins a new one if needed.
  void PlaceFrame(const FrameView& frame, absl::string_view recording_id,
                  const v1::StreamHeader* header);
  void EndRecording();
  StreamState* CheckSequence(const FrameView& frame);
  absl::Status HandleHeader(const FrameView& frame, absl::string_view payload);
  absl::Status HandleDictionary(const FrameView& frame, absl::string_view payload);
  void DeliverDictionary(const FrameContext& context, const v1::Dictionary& entries);
  absl::Status HandleRecords(uint8_t frame_type, absl::string_view payload);
  template <typename Kind>
  absl::Status HandleBatch(absl::string_view payload);
  absl::Status HandleEvent(absl::string_view payload);
  absl::Status HandleStreamEnd(absl::string_view payload);
  void HandleSkip(const SkippedRange& range);
  // Returns a Damage with the position of the current frame.
  Damage NewDamage(Damage::Kind kind) const;

  StreamVisitor* visitor_;
  FrameObserver observer_;
  FrameScanner scanner_;
  Decompressor decompressor_;
  ReadStats stats_;
  bool in_recording_ = false;
  bool recording_ended_ = false;
  // True if the recording was read from its first frame on.
  bool from_beginning_ = false;
  std::string recording_id_;  // empty: not known
  uint64_t recording_frames_ = 0;
  uint64_t recording_missing_ = 0;
  FrameContext context_;  // of the current frame
  absl::flat_hash_map<uint32_t, StreamState> streams_;
  StreamState untracked_;  // for streams beyond the limit
  std::string plain_;
  // Kept between frames so that reading one allocates little.
  template <typename Kind>
  using RecordsOf = std::vector<typename Kind::Record>;
  ByRecordKind<RecordsOf> records_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_DECODER_H_
