// Batches of copies: hsa_amd_memory_async_batch_copy.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_BATCH_COPY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_BATCH_COPY_H_

#include <hsa/hsa.h>
#include <stddef.h>
#include <stdint.h>

namespace rocattach::collector {

// One operation of a batch, with one completion signal and any number of entries. As in
// hsa_ext_amd.h since ROCm 10.0; not in the headers of ROCm 5.2.
struct CopyOp {
  enum Type : uint16_t {
    kLinear = 0,
    kBroadcast = 1,  // one source, to each destination of a list
    kSwap = 2,
    kIndirectSource = 3,  // the indirect types have addresses of pointers
    kIndirectDestination = 4,
    kIndirectBoth = 5,
  };

  uint16_t version;
  uint16_t type;
  uint16_t entries;  // length of the lists below; 0: there are none
  uint16_t traffic_class;
  hsa_signal_t completion;
  union {
    void* src;
    void* const* src_list;
  };
  hsa_agent_t src_agent;
  union {
    hsa_agent_t dst_agent;
    const hsa_agent_t* dst_agent_list;
  };
  union {
    void* dst;
    void* const* dst_list;
  };
  union {
    size_t size;
    const size_t* size_list;
  };
  size_t second_size;  // swap without lists: bytes that go from dst to src
  uint8_t wait[32];
  uint8_t signal[32];
};
static_assert(sizeof(CopyOp) == 128, "as the runtime has it");

using AsyncBatchCopy = hsa_status_t (*)(const CopyOp* ops, uint32_t count,
                                        uint32_t num_deps, const hsa_signal_t* deps);

// One copy of an operation.
struct CopyEntry {
  void* dst;
  hsa_agent_t dst_agent;
  const void* src;
  hsa_agent_t src_agent;
  size_t bytes;
};

// True if an operation has the layout above: development branches had smaller ones, and
// later releases may give the fields other meanings.
inline bool IsCopyOp(const CopyOp& op) {
  if (op.type > CopyOp::kIndirectBoth || op.completion.handle % 64 != 0) return false;
  if (op.entries == 0) return op.type != CopyOp::kBroadcast;
  if (op.type > CopyOp::kSwap || op.dst_list == nullptr ||
      op.dst_agent_list == nullptr) {
    return false;
  }
  return op.type == CopyOp::kBroadcast ||
         (op.src_list != nullptr && op.size_list != nullptr);
}

// Number of operations at the front of a batch that have the layout above. In a layout
// of another size the second operation is not at its place, and is not recognised as
// one. `is_agent` returns true for the handle of an agent: nothing that an operation
// points to is read unless its agents are where they should be.
template <typename IsAgent>
uint32_t KnownCopyOps(const CopyOp* ops, uint32_t count, IsAgent is_agent) {
  if (ops == nullptr) return 0;
  uint32_t known = 0;
  for (; known < count; ++known) {
    const CopyOp& op = ops[known];
    if (op.version != ops[0].version || !IsCopyOp(op)) break;
    if (!is_agent(op.src_agent) || (op.entries == 0 && !is_agent(op.dst_agent))) break;
  }
  return known;
}

// Maximum number of copies of an operation, found without reading its lists: some of
// those copies may be of 0 bytes.
inline uint64_t MostCopies(const CopyOp& op) {
  const bool swap = op.type == CopyOp::kSwap;
  if (op.entries != 0) return uint64_t{op.entries} * (swap ? 2 : 1);
  return uint64_t{op.size != 0} + uint64_t{swap && op.second_size != 0};
}

// Calls `use` with each copy of an operation for which IsCopyOp() holds,
// except copies of 0 bytes.
template <typename Use>
void ForEachCopy(const CopyOp& op, Use use) {
  const auto one = [&](void* dst, hsa_agent_t dst_agent, void* src,
                       hsa_agent_t src_agent, size_t bytes) {
    if (bytes != 0) use(CopyEntry{dst, dst_agent, src, src_agent, bytes});
  };
  const bool swap = op.type == CopyOp::kSwap;
  if (op.entries == 0) {
    one(op.dst, op.dst_agent, op.src, op.src_agent, op.size);
    if (swap) one(op.src, op.src_agent, op.dst, op.dst_agent, op.second_size);
    return;
  }
  for (uint32_t i = 0; i < op.entries; ++i) {
    const bool list = op.type != CopyOp::kBroadcast;
    void* const src = list ? op.src_list[i] : op.src;
    const size_t bytes = list ? op.size_list[i] : op.size;
    one(op.dst_list[i], op.dst_agent_list[i], src, op.src_agent, bytes);
    if (swap) one(src, op.src_agent, op.dst_list[i], op.dst_agent_list[i], bytes);
  }
}

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_BATCH_COPY_H_
