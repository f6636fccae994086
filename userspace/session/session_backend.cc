#include "userspace/session/session_backend.h"

#include "userspace/abi/plan.h"

namespace rocattach {

bool SessionBackend::MayHaveApiFunction(TraceDomain domain, const std::string& name) {
  const uint32_t table =
      domain == TraceDomain::kHsaApi ? ROCATTACH_PLAN_API_HSA : ROCATTACH_PLAN_API_HIP;
  bool reported = false;
  for (ProcessId target : Targets()) {
    const auto description = Describe(target);
    if (!description.ok()) continue;
    for (const TargetFunction& function : description->functions) {
      if (function.domain != table) continue;
      if (function.name == name) return true;
      reported = true;
    }
  }
  return !reported;
}

}  // namespace rocattach
