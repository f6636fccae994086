// AQL packets: the types of HSA and the formats of AMD.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_PACKET_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_PACKET_H_

#include <emmintrin.h>
#include <hsa/hsa.h>
#include <stdint.h>

namespace rocattach::collector {

inline uint8_t PacketType(uint16_t header) {
  return (header >> HSA_PACKET_HEADER_TYPE) &
         ((1u << HSA_PACKET_HEADER_WIDTH_TYPE) - 1);
}

// True if the packet begins only when all before it in its queue have ended.
inline bool HasBarrier(uint16_t header) {
  return (header >> HSA_PACKET_HEADER_BARRIER & 1) != 0;
}

// The third byte of packets of type HSA_PACKET_TYPE_VENDOR_SPECIFIC. Names are those of
// hsa_ext_amd.h of interface 1.31, without the prefix.
enum class VendorFormat : uint8_t {
  kPm4 = 1,
  kBarrierValue = 2,
  kExtKernelDispatch = 3,  // gfx1250's; up to interface 1.16 only for AIE agents
  kIbCondJump = 6,         // runs packets that are outside of the ring
  kIbJump = 7,
};

// VendorFormat::kExtKernelDispatch: a dispatch in clusters of workgroups.
struct ExtKernelDispatch {
  uint16_t header;
  uint8_t format;
  uint8_t setup;
  uint16_t workgroup_size[3];
  uint16_t reserved;
  uint32_t clusters_x;
  uint16_t clusters_y, clusters_z;
  uint8_t cluster_size[3];  // workgroups of a cluster
  uint8_t hint;
  uint32_t private_segment_size;
  uint32_t group_segment_size;
  uint64_t kernel_object;
  uint64_t kernarg_address;
  uint64_t dependency;  // a signal
  uint64_t completion_signal;
};

// A packet of any type.
union AqlPacket {
  hsa_kernel_dispatch_packet_t dispatch;
  ExtKernelDispatch ext_dispatch;
  struct {
    uint16_t header;
    uint8_t format;  // vendor-specific packets only
  } any;
  uint32_t first;  // the header, and two bytes more
  uint64_t words[8];
};
static_assert(sizeof(AqlPacket) == 64 && sizeof(ExtKernelDispatch) == 64,
              "as packet processors read them");

enum class PacketKind : uint8_t {
  kDispatch,
  kExtDispatch,
  kOpaque,  // runs work that the packet does not describe, or its type is not known
  kOther,   // runs no kernel
};

// A packet whose header has been read, exactly once: if the doorbell was rung past it
// before, a packet processor may take it at any time and overwrite its type.
class PacketView {
 public:
  PacketView(const AqlPacket& packet)  // NOLINT(google-explicit-constructor)
      : first_(__atomic_load_n(&packet.first, __ATOMIC_ACQUIRE)), packet_(&packet) {}

  uint8_t type() const { return PacketType(static_cast<uint16_t>(first_)); }
  VendorFormat format() const { return static_cast<VendorFormat>(first_ >> 16 & 0xff); }
  const AqlPacket& operator*() const { return *packet_; }
  const AqlPacket* operator->() const { return packet_; }

  PacketKind kind() const {
    switch (type()) {
      case HSA_PACKET_TYPE_KERNEL_DISPATCH:
        return PacketKind::kDispatch;
      case HSA_PACKET_TYPE_BARRIER_AND:
      case HSA_PACKET_TYPE_BARRIER_OR:
      case HSA_PACKET_TYPE_AGENT_DISPATCH:
      case HSA_PACKET_TYPE_INVALID:
        return PacketKind::kOther;
      case HSA_PACKET_TYPE_VENDOR_SPECIFIC:
        break;
      default:
        return PacketKind::kOpaque;
    }
    switch (format()) {
      case VendorFormat::kExtKernelDispatch:
        return PacketKind::kExtDispatch;
      case VendorFormat::kBarrierValue:
        return PacketKind::kOther;
      default:
        return PacketKind::kOpaque;
    }
  }
  bool is_pm4() const {
    return type() == HSA_PACKET_TYPE_VENDOR_SPECIFIC && format() == VendorFormat::kPm4;
  }

  // Calls `use` with each value that may be the handle of the packet's completion
  // signal. A value that is not one does no harm if `use` only looks it up.
  template <typename Use>
  void ForEachCompletionSignal(Use use) const {
    constexpr int kIb = 6, kLast = 7;
    const bool vendor = type() == HSA_PACKET_TYPE_VENDOR_SPECIFIC;
    const bool known = !vendor || format() == VendorFormat::kPm4 ||
                       format() == VendorFormat::kBarrierValue ||
                       format() == VendorFormat::kExtKernelDispatch;
    if (!known) use(packet_->words[kIb]);
    const bool ib = vendor && (format() == VendorFormat::kIbJump ||
                               format() == VendorFormat::kIbCondJump);
    if (!ib) use(packet_->words[kLast]);
  }

 private:
  uint32_t first_;
  const AqlPacket* packet_;
};

// The same dispatch as an HSA kernel dispatch packet.
inline hsa_kernel_dispatch_packet_t AsDispatch(const ExtKernelDispatch& ext) {
  const uint64_t clusters[3] = {ext.clusters_x, ext.clusters_y, ext.clusters_z};
  uint32_t grid[3];
  for (int i = 0; i < 3; ++i) {
    const uint64_t items = clusters[i] * ext.cluster_size[i] * ext.workgroup_size[i];
    grid[i] = items < UINT32_MAX ? static_cast<uint32_t>(items) : UINT32_MAX;
  }
  hsa_kernel_dispatch_packet_t packet = {};
  packet.header = ext.header;
  packet.setup = ext.setup;
  packet.workgroup_size_x = ext.workgroup_size[0];
  packet.workgroup_size_y = ext.workgroup_size[1];
  packet.workgroup_size_z = ext.workgroup_size[2];
  packet.grid_size_x = grid[0];
  packet.grid_size_y = grid[1];
  packet.grid_size_z = grid[2];
  packet.private_segment_size = ext.private_segment_size;
  packet.group_segment_size = ext.group_segment_size;
  packet.kernel_object = ext.kernel_object;
  packet.kernarg_address = reinterpret_cast<void*>(ext.kernarg_address);
  packet.completion_signal.handle = ext.completion_signal;
  return packet;
}

// Reads a packet in device memory with few loads, since each is one read over the bus.
// The header is read first: what its producer wrote before it is visible then.
inline void ReadOnce(const AqlPacket* packet, AqlPacket* copy) {
  const auto* from = reinterpret_cast<const __m128i*>(packet);
  auto* to = reinterpret_cast<__m128i*>(copy);
  _mm_storeu_si128(&to[0], _mm_load_si128(&from[0]));
  _mm_lfence();
  for (int i = 1; i < 4; ++i) _mm_storeu_si128(&to[i], _mm_load_si128(&from[i]));
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_PACKET_H_
