#include "userspace/session/plan_domains.h"

#include "userspace/abi/plan.h"

namespace rocattach {

std::optional<PlanKind> PlanKindOf(TraceDomain domain) {
  switch (domain) {
    case TraceDomain::kMemoryCopies:
      return PlanKind{ROCATTACH_PLAN_RECORD_COPIES, "memory copies"};
    case TraceDomain::kMemoryAllocations:
      return PlanKind{ROCATTACH_PLAN_RECORD_MEMORY, "memory allocations"};
    case TraceDomain::kScratchMemory:
      return PlanKind{ROCATTACH_PLAN_RECORD_SCRATCH, "scratch memory"};
    default:
      return std::nullopt;
  }
}

uint32_t PlanApiOf(TraceDomain api) {
  switch (api) {
    case TraceDomain::kHsaApi:
      return ROCATTACH_PLAN_API_HSA;
    case TraceDomain::kHipApi:
      return ROCATTACH_PLAN_API_HIP;
    case TraceDomain::kRcclApi:
      return ROCATTACH_PLAN_API_RCCL;
    default:
      return ROCATTACH_PLAN_API_MARKER;
  }
}

absl::string_view ApiText(TraceDomain api) {
  switch (api) {
    case TraceDomain::kHsaApi:
      return "calls of the HSA API";
    case TraceDomain::kHipApi:
      return "calls of the HIP API";
    case TraceDomain::kRcclApi:
      return "calls of the RCCL API";
    default:
      return "markers";
  }
}

}  // namespace rocattach
