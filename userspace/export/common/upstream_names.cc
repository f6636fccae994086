#include "userspace/export/common/upstream_names.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "userspace/abi/records.h"

namespace rocattach {
namespace {

struct ApiKind {
  absl::string_view name;
  uint32_t number;
};

// Kinds by domain; the table of a function is its number divided by 256, and HIP's
// runtime table takes three of these ranges.
constexpr ApiKind kHsaKinds[] = {{"HSA_CORE_API", 1},
                                 {"HSA_AMD_EXT_API", 2},
                                 {"HSA_IMAGE_EXT_API", 3},
                                 {"HSA_FINALIZE_EXT_API", 4}};
constexpr ApiKind kHipKinds[] = {{"HIP_RUNTIME_API_EXT", 21},
                                 {"HIP_RUNTIME_API_EXT", 21},
                                 {"HIP_RUNTIME_API_EXT", 21},
                                 {"HIP_COMPILER_API_EXT", 22}};
constexpr ApiKind kMarkerKinds[] = {
    {"MARKER_CORE_API", 7}, {"MARKER_CONTROL_API", 8}, {"MARKER_NAME_API", 9}};

constexpr ApiKind kRcclKinds[] = {{"RCCL_API", 14}};

const ApiKind& KindOf(uint32_t domain, uint32_t function) {
  const uint32_t table = function / 256;
  auto at = [&](const auto& kinds) -> const ApiKind& {
    return kinds[std::min<size_t>(table, std::size(kinds) - 1)];
  };
  switch (domain) {
    case v1::API_DOMAIN_HIP:
      return at(kHipKinds);
    case v1::API_DOMAIN_MARKER:
      return at(kMarkerKinds);
    case v1::API_DOMAIN_RCCL:
      return at(kRcclKinds);
    default:
      return at(kHsaKinds);
  }
}

}  // namespace

absl::string_view ApiKindName(uint32_t domain, uint32_t function) {
  return KindOf(domain, function).name;
}

uint32_t ApiKindNumber(uint32_t domain, uint32_t function) {
  return KindOf(domain, function).number;
}

uint32_t ApiOperation(uint32_t domain, uint32_t function) {
  return domain == v1::API_DOMAIN_HIP && function < 768 ? function : function % 256;
}

bool IsScratch(uint16_t memory_operation) {
  return memory_operation >= ROCATTACH_MEMORY_SCRATCH_ALLOCATE;
}

absl::string_view MemoryOperationName(uint16_t memory_operation) {
  switch (memory_operation) {
    case ROCATTACH_MEMORY_ALLOCATE:
      return "MEMORY_ALLOCATION_ALLOCATE";
    case ROCATTACH_MEMORY_VMEM_ALLOCATE:
      return "MEMORY_ALLOCATION_VMEM_ALLOCATE";
    case ROCATTACH_MEMORY_FREE:
      return "MEMORY_ALLOCATION_FREE";
    case ROCATTACH_MEMORY_VMEM_FREE:
      return "MEMORY_ALLOCATION_VMEM_FREE";
    case ROCATTACH_MEMORY_SCRATCH_ALLOCATE:
      return "SCRATCH_MEMORY_ALLOC";
    case ROCATTACH_MEMORY_SCRATCH_FREE:
      return "SCRATCH_MEMORY_FREE";
    case ROCATTACH_MEMORY_SCRATCH_RECLAIM:
      return "SCRATCH_MEMORY_ASYNC_RECLAIM";
    default:
      return IsScratch(memory_operation) ? "SCRATCH_MEMORY_NONE"
                                         : "MEMORY_ALLOCATION_NONE";
  }
}

uint32_t MemoryOperationNumber(uint16_t memory_operation) {
  return IsScratch(memory_operation)
             ? memory_operation - uint32_t{ROCATTACH_MEMORY_VMEM_FREE}
             : memory_operation;
}

absl::string_view CopyDirectionName(uint16_t direction) {
  switch (direction) {
    case ROCATTACH_COPY_HOST_TO_HOST:
      return "MEMORY_COPY_HOST_TO_HOST";
    case ROCATTACH_COPY_HOST_TO_DEVICE:
      return "MEMORY_COPY_HOST_TO_DEVICE";
    case ROCATTACH_COPY_DEVICE_TO_HOST:
      return "MEMORY_COPY_DEVICE_TO_HOST";
    case ROCATTACH_COPY_DEVICE_TO_DEVICE:
      return "MEMORY_COPY_DEVICE_TO_DEVICE";
    default:
      return "MEMORY_COPY_NONE";
  }
}

std::string AgentText(const AgentPlace& place, AgentIndex index) {
  switch (index) {
    case AgentIndex::kAbsolute:
      return absl::StrCat("Agent ", place.absolute);
    case AgentIndex::kRelative:
      return absl::StrCat("Agent ", place.relative);
    case AgentIndex::kTypeRelative:
      break;
  }
  return absl::StrCat(place.type == v1::AGENT_TYPE_GPU ? "GPU " : "CPU ",
                      place.type_relative);
}

}  // namespace rocattach
