// Names that rocprofv3 uses in its outputs.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_UPSTREAM_NAMES_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_UPSTREAM_NAMES_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/export/common/export_options.h"
#include "userspace/export/common/export_process.h"

namespace rocattach {

inline constexpr absl::string_view kKernelDispatchKind = "KERNEL_DISPATCH";
inline constexpr absl::string_view kMemoryCopyKind = "MEMORY_COPY";

inline constexpr absl::string_view kMemoryAllocationKind = "MEMORY_ALLOCATION";
inline constexpr absl::string_view kScratchMemoryKind = "SCRATCH_MEMORY";

// True if the operation is of the kind SCRATCH_MEMORY.
bool IsScratch(uint16_t memory_operation);
// "MEMORY_ALLOCATION_FREE", "SCRATCH_MEMORY_ALLOC".
absl::string_view MemoryOperationName(uint16_t memory_operation);
// The operation's number within its kind.
uint32_t MemoryOperationNumber(uint16_t memory_operation);

// The table of its domain that contains a function: "HSA_AMD_EXT_API".
absl::string_view ApiKindName(uint32_t domain, uint32_t function);
// The number of this kind among rocprofiler-sdk's buffer records.
uint32_t ApiKindNumber(uint32_t domain, uint32_t function);
// The function's number within its table.
uint32_t ApiOperation(uint32_t domain, uint32_t function);

// "MEMORY_COPY_HOST_TO_DEVICE".
absl::string_view CopyDirectionName(uint16_t direction);

// "Agent 1", "GPU 0".
std::string AgentText(const AgentPlace& place, AgentIndex index);

// Group segments are allocated in blocks.
inline uint32_t LdsBlockSize(uint32_t bytes) {
  constexpr uint32_t kBlock = 512;
  return (bytes + kBlock - 1) & ~(kBlock - 1);
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_UPSTREAM_NAMES_H_
