#include "userspace/collector/hsa/signal_pool.h"

namespace rocattach::collector {
namespace {

struct PoolChoice {
  const HsaFunctions* hsa;
  hsa_amd_memory_pool_t pool;
  bool found;
};

hsa_status_t ChoosePool(hsa_amd_memory_pool_t pool, void* data) {
  auto* choice = static_cast<PoolChoice*>(data);
  const HsaFunctions& hsa = *choice->hsa;
  hsa_amd_segment_t segment = HSA_AMD_SEGMENT_PRIVATE;
  uint32_t flags = 0;
  bool allowed = false;
  hsa.memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment);
  hsa.memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags);
  hsa.memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED,
                           &allowed);
  if (segment != HSA_AMD_SEGMENT_GLOBAL || !allowed ||
      (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED) == 0) {
    return HSA_STATUS_SUCCESS;
  }
  choice->pool = pool;
  choice->found = true;
  return HSA_STATUS_INFO_BREAK;
}

}  // namespace

hsa_status_t SignalPool::Allocate(const HsaFunctions& hsa, const Agents& agents,
                                  uint32_t count) {
  PoolChoice choice = {&hsa, {}, false};
  hsa_agent_t gpus[Agents::kMax];
  uint32_t gpu_count = 0;
  for (uint32_t i = 0; i < agents.count(); ++i) {
    const Agent& agent = agents.at(i);
    if (agent.gpu) {
      gpus[gpu_count++] = agent.handle;
    } else if (!choice.found) {
      hsa.agent_iterate_memory_pools(agent.handle, ChoosePool, &choice);
    }
  }
  if (!choice.found) return HSA_STATUS_ERROR_OUT_OF_RESOURCES;
  void* memory = nullptr;
  hsa_status_t status =
      hsa.memory_pool_allocate(choice.pool, count * sizeof(amd_signal_t), 0, &memory);
  if (status != HSA_STATUS_SUCCESS) return status;
  if (gpu_count != 0) {
    status = hsa.agents_allow_access(gpu_count, gpus, nullptr, memory);
    // The memory is then unused by the runtime; leaking it is safe.
    if (status != HSA_STATUS_SUCCESS) return status;
  }
  StoreRelease(&signals_, static_cast<amd_signal_t*>(memory));
  return HSA_STATUS_SUCCESS;
}

}  // namespace rocattach::collector
