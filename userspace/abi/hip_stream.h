// The HIP stream of a dispatch, which has no field of its own. It takes that of the
// packet index: only rocprofiler-sdk knows streams, and it does not know packets.
#ifndef ROCATTACH_USERSPACE_ABI_HIP_STREAM_H_
#define ROCATTACH_USERSPACE_ABI_HIP_STREAM_H_

#include <stdint.h>

#include "userspace/abi/records.h"

namespace rocattach {

// Bit of rocattach_dispatch.packet_index: the rest is a stream's number plus 1. No
// queue's index gets that far.
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

// The queue's number of the packet; 0 where the stream is known instead.
inline uint64_t PacketNumber(const rocattach_dispatch& r) {
  return HipStreamIn(r) != 0 ? 0 : r.packet_index;
}

// Stream_Id of rocprofv3 and rocpd, which use 0 both for the default stream and for one
// that is not known.
template <typename Operation>
uint32_t HipStreamId(const Operation& r) {
  const uint32_t stream = HipStreamIn(r);
  return stream == 0 ? 0 : stream - 1;
}

// True if this can be a packet's number or a stream's; other values that a target
// writes there are neither.
inline constexpr bool IsPacketIndex(uint64_t packet_index) {
  return (packet_index & kHipStreamTag) == 0 ||
         packet_index == PacketIndexOf(static_cast<uint32_t>(packet_index));
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ABI_HIP_STREAM_H_
