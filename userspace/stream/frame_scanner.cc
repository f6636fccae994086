#include "userspace/stream/frame_scanner.h"

#include <algorithm>
#include <cstring>

#include "userspace/stream/crc32c.h"

namespace rocattach {

void FrameScanner::Append(absl::string_view bytes) {
  if (position_ > 0) {
    buffer_.erase(0, position_);
    buffer_offset_ += position_;
    position_ = 0;
  }
  buffer_.append(bytes.data(), bytes.size());
}

void FrameScanner::Reset() {
  buffer_.clear();
  position_ = 0;
  buffer_offset_ = 0;
  finished_ = false;
  skip_ = {};
  wasted_bytes_ = 0;
}

void FrameScanner::Skip(size_t bytes) {
  if (skip_.bytes == 0) skip_.offset = buffer_offset_ + position_;
  skip_.bytes += bytes;
  position_ += bytes;
}

void FrameScanner::EndSkip(bool at_end) {
  if (skip_.bytes == 0) return;
  skip_.at_end = at_end;
  on_skip_(skip_);
  skip_ = {};
}

// Frames can lie inside the payload of a damaged one (it was truncated, and others
// follow), so the search continues right after a damaged header, and bytes may be
// checksummed many times. An attacker could make this work quadratic, so beyond a
// generous share of the input, damaged frames are skipped as a whole.
bool FrameScanner::WorthChecking(size_t bytes) {
  constexpr uint64_t kAllowance = 64 << 20;
  constexpr uint64_t kShare = 64;
  return wasted_bytes_ + bytes <= kAllowance + kShare * (buffer_offset_ + position_);
}

bool FrameScanner::Next(FrameView* frame) {
  while (position_ < buffer_.size()) {
    switch (LookAtPosition(frame)) {
      case Look::kFrame:
        EndSkip(false);
        position_ += frame->bytes.size();
        return true;
      case Look::kNeedMore:
        return false;
      case Look::kNothing:
        break;  // LookAtPosition has advanced
    }
  }
  if (finished_) EndSkip(true);
  return false;
}

FrameScanner::Look FrameScanner::LookAtPosition(FrameView* frame) {
  const char* at = buffer_.data() + position_;
  size_t left = buffer_.size() - position_;
  if (*at != kFrameMagic[0]) {
    const void* next = memchr(at, kFrameMagic[0], left);
    Skip(next == nullptr ? left
                         : static_cast<size_t>(static_cast<const char*>(next) - at));
    return Look::kNothing;
  }
  // Not the beginning of a frame: no need to wait for the rest of a header.
  if (memcmp(at, kFrameMagic, std::min(left, sizeof(kFrameMagic))) != 0) {
    Skip(1);
    return Look::kNothing;
  }
  if (left < kFrameHeaderBytes) {
    if (!finished_) return Look::kNeedMore;
    Skip(left);
    return Look::kNothing;
  }
  std::optional<FrameHeader> header = DecodeFrameHeader(at);
  if (!header) {
    Skip(1);
    return Look::kNothing;
  }
  size_t padded = PaddedBytes(header->payload_bytes);
  bool complete = left >= kFrameHeaderBytes + padded;
  if (!complete && !finished_) return Look::kNeedMore;
  absl::string_view body(at + kFrameHeaderBytes, complete ? padded : 0);
  bool worth = WorthChecking(padded);
  if (complete && worth && Crc32c(body) == header->payload_crc) {
    frame->header = *header;
    frame->payload = body.substr(0, header->payload_bytes);
    frame->bytes = absl::string_view(at, kFrameHeaderBytes + padded);
    frame->offset = buffer_offset_ + position_;
    return Look::kFrame;
  }
  ++skip_.damaged_frames;
  skip_.damaged_records += header->records;
  wasted_bytes_ += padded;
  Skip(worth ? 1 : std::min(left, kFrameHeaderBytes + padded));
  return Look::kNothing;
}

}  // namespace rocattach
