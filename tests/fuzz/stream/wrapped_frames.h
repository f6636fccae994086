// Any bytes as frames with correct checksums, so that the messages behind the checksums
// are reached too.
#ifndef ROCATTACH_TESTS_FUZZ_STREAM_WRAPPED_FRAMES_H_
#define ROCATTACH_TESTS_FUZZ_STREAM_WRAPPED_FRAMES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/stream/frame.h"

namespace rocattach {

inline void Require(bool condition) {
  if (!condition) abort();
}

// Several frames: each piece begins with type, codec and stream, and length.
inline std::string WrapInFrames(absl::string_view bytes) {
  std::string stream;
  std::string frame;
  uint32_t sequence = 0;
  while (bytes.size() >= 4) {
    FrameHeader header;
    header.type = static_cast<uint8_t>(bytes[0]) % 18;
    header.codec = static_cast<uint8_t>(bytes[1]) % 4;
    header.stream_id = static_cast<uint8_t>(bytes[1]) / 4 % 4;
    header.sequence = sequence++;
    size_t length =
        (static_cast<uint8_t>(bytes[2]) | (static_cast<uint8_t>(bytes[3]) << 8));
    bytes.remove_prefix(4);
    BuildFrame(header, bytes.substr(0, length), &frame);
    stream += frame;
    bytes.remove_prefix(std::min(length, bytes.size()));
  }
  return stream;
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_FUZZ_STREAM_WRAPPED_FRAMES_H_
