// The frame: the unit of a stream that can be read on its own. docs/stream-format.md
// has the byte layout.
#ifndef ROCATTACH_USERSPACE_STREAM_FRAME_H_
#define ROCATTACH_USERSPACE_STREAM_FRAME_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// "RAW" and a byte that no UTF-8 text contains.
inline constexpr char kFrameMagic[4] = {'R', 'A', 'W', '\xf1'};
inline constexpr uint8_t kFrameVersion = 1;
inline constexpr size_t kFrameHeaderBytes = 32;
// Maximum size of a payload, on the wire and decompressed; bounds a reader's memory.
inline constexpr size_t kMaxPayloadBytes = 1 << 20;
// Maximum number of records in one batch frame.
inline constexpr size_t kMaxBatchRecords = 32768;

enum class FrameCodec : uint8_t {
  kNone = 0,
  kDeflate = 1 /* never written */,
  kZstd = 2
};

// Bits of FrameHeader.flags. A reader can start here: the frame contains everything
// known of its stream.
inline constexpr uint8_t kFrameFlagKey = 1;
// The last frame of its stream.
inline constexpr uint8_t kFrameFlagLast = 2;

struct FrameHeader {
  uint8_t version = kFrameVersion;
  uint8_t type = 0;   // v1::FrameType
  uint8_t codec = 0;  // FrameCodec
  uint8_t flags = 0;
  uint32_t payload_bytes = 0;  // on the wire, without padding
  uint32_t payload_crc = 0;    // of the payload and its padding, as on the wire
  uint32_t stream_id = 0;      // 0: the recorder's own; else one process
  uint32_t sequence = 0;       // per stream, +1 for each frame, dropped ones included
  uint32_t records = 0;        // records in the payload
};

// Size of a payload with the zeros that align the next frame to a multiple of 8.
constexpr size_t PaddedBytes(size_t payload_bytes) {
  return (payload_bytes + 7) & ~static_cast<size_t>(7);
}

// Writes the header's 32 bytes, checksum included.
void EncodeFrameHeader(const FrameHeader& header, char* out);

// Reads 32 bytes; returns nothing unless magic and checksum are right and the length is
// within kMaxPayloadBytes. Accepts other versions: their length can be trusted.
std::optional<FrameHeader> DecodeFrameHeader(const char* bytes);

// Builds a complete frame around a payload that is already in its wire form. Fills in
// payload_bytes and payload_crc; replaces *out.
void BuildFrame(FrameHeader header, absl::string_view payload, std::string* out);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_FRAME_H_
