// The HIP stream of a dispatch. A record has no room of its own for it; but only
// rocprofiler-sdk knows streams, and it does not know packets.
#ifndef ROCATTACH_USERSPACE_ABI_HIP_STREAM_H_
#define ROCATTACH_USERSPACE_ABI_HIP_STREAM_H_

#include <stdint.h>

#include "userspace/abi/records.h"

namespace rocattach {

// In rocattach_dispatch.packet_index: the rest is a stream's number plus 1. No queue
// gets that far.
inline constexpr uint64_t kHipStreamTag = uint64_t{1} << 63;

// `stream`: as in rocattach_copy.hip_stream, the number plus 1, 0 if it is not known.
inline constexpr uint64_t PacketIndexOf(uint32_t stream) {
  return stream != 0 ? kHipStreamTag | stream : 0;
}

// The number plus 1; 0 not known.
inline constexpr uint32_t HipStreamIn(uint64_t packet_index) {
  return (packet_index & kHipStreamTag) != 0 ? static_cast<uint32_t>(packet_index) : 0;
}

inline uint32_t HipStreamIn(const rocattach_dispatch& r) {
  return HipStreamIn(r.packet_index);
}
inline uint32_t HipStreamIn(const rocattach_copy& r) {
  return r.hip_stream;
}

// What a queue counted; 0 where the stream is known instead.
inline uint64_t PacketNumber(const rocattach_dispatch& r) {
  return HipStreamIn(r) != 0 ? 0 : r.packet_index;
}

// Stream_Id of rocprofv3 and rocpd, which have 0 for the default stream and for what is
// not known.
template <typename Operation>
uint32_t HipStreamId(const Operation& r) {
  const uint32_t stream = HipStreamIn(r);
  return stream == 0 ? 0 : stream - 1;
}

// Whether a packet's number may be meant, or a stream's: what else a target writes
// there is neither.
inline constexpr bool IsPacketIndex(uint64_t packet_index) {
  return (packet_index & kHipStreamTag) == 0 ||
         packet_index == PacketIndexOf(static_cast<uint32_t>(packet_index));
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ABI_HIP_STREAM_H_
