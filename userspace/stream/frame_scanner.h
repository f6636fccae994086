// Finds frames in arbitrary bytes.
#ifndef ROCATTACH_USERSPACE_STREAM_FRAME_SCANNER_H_
#define ROCATTACH_USERSPACE_STREAM_FRAME_SCANNER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/stream/frame.h"

namespace rocattach {

// Bytes that belong to no intact frame.
struct SkippedRange {
  uint64_t offset = 0;  // counted over everything appended so far
  uint64_t bytes = 0;
  // Frames in it whose header was intact but whose payload was damaged or truncated,
  // and the records that they claim to hold.
  uint64_t damaged_frames = 0;
  uint64_t damaged_records = 0;
  // The range reaches the end of the input: most likely a frame that was being written.
  bool at_end = false;
};

// One intact frame; the views are valid until the next call to the scanner.
struct FrameView {
  FrameHeader header;
  absl::string_view payload;  // as on the wire
  absl::string_view bytes;    // the whole frame
  uint64_t offset = 0;
};

// Push bytes in with Append(), pull frames out with Next() until it returns false.
// Holds at most one frame of the largest size and the bytes of the last Append(). After
// damage, searches for the next frame at every byte, so that a lost or added byte costs
// no more than a changed one.
class FrameScanner {
 public:
  // `on_skip` is called for every skipped range, before the frame that follows it.
  explicit FrameScanner(std::function<void(const SkippedRange&)> on_skip)
      : on_skip_(std::move(on_skip)) {}

  void Append(absl::string_view bytes);
  // Gets the next intact frame; false if more bytes are needed.
  bool Next(FrameView* frame);
  // There are no more bytes. Call Next() until it returns false again.
  void Finish() { finished_ = true; }
  // Starts over with the next file.
  void Reset();

  // Number of bytes that wait for the rest of their frame.
  size_t pending_bytes() const { return buffer_.size() - position_; }

 private:
  enum class Look { kFrame, kNothing, kNeedMore };
  Look LookAtPosition(FrameView* frame);
  void Skip(size_t bytes);
  void EndSkip(bool at_end);
  bool WorthChecking(size_t bytes);

  std::function<void(const SkippedRange&)> on_skip_;
  std::string buffer_;
  size_t position_ = 0;         // in buffer_
  uint64_t buffer_offset_ = 0;  // position of buffer_'s first byte in the input
  bool finished_ = false;
  SkippedRange skip_;
  // Number of checksummed bytes in failed payloads; see WorthChecking().
  uint64_t wasted_bytes_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_FRAME_SCANNER_H_
