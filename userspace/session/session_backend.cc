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

TraceDomain TraceDomainOf(uint32_t plan_api) {
  switch (plan_api) {
    case ROCATTACH_PLAN_API_HSA:
      return TraceDomain::kHsaApi;
    case ROCATTACH_PLAN_API_HIP:
      return TraceDomain::kHipApi;
    case ROCATTACH_PLAN_API_RCCL:
      return TraceDomain::kRcclApi;
    default:
      return TraceDomain::kMarkers;
  }
}

std::vector<GpuName> GpuNames(const std::vector<TargetGpu>& gpus) {
  std::vector<GpuName> names;
  names.reserve(gpus.size());
  for (const TargetGpu& gpu : gpus) {
    names.push_back(
        {gpu.architecture, gpu.product_name, gpu.uuid, gpu.pci, gpu.compute_units});
  }
  return names;
}

std::shared_ptr<TargetNames> NamesOf(const TargetDescription& description) {
  if (description.names != nullptr) return description.names;
  auto names = std::make_shared<TargetNames>();
  names->SetGpus(GpuNames(description.gpus));
  for (const TargetFunction& function : description.functions) {
    names->AddFunction(TraceDomainOf(function.domain), function.number, function.name);
  }
  return names;
}

}  // namespace rocattach
