// Memory that the application allocates and frees, while a plan asks for it.
#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/hooks.h"

namespace rocattach::collector {
namespace {

// The plan that wants to know; nullptr if none does. Does not arm the collector: that
// is left to calls that submit work.
const PlanState* Wanted() {
  if (!g_process.Live() || !g_hsa.recording.Planned(ROCATTACH_PLAN_RECORD_MEMORY)) {
    return nullptr;
  }
  return g_hsa.recording.plan();
}

void Publish(const PlanState* plan, rocattach_memory* record) {
  ErrnoKeeper keep_errno;
  const uint64_t generation = LoadAcquire(&plan->generation);
  if (generation == 0) return;
  RingHandle ring = g_process.rings.Mine();
  record->kind = ROCATTACH_RECORD_MEMORY;
  record->tid = ring.tid();
  record->plan_tag = ROCATTACH_PLAN_TAG(generation);
  record->correlation_id =
      __atomic_add_fetch(&g_hsa.memory_operations, 1u, __ATOMIC_RELAXED);
  ring.Count(&rocattach_ring::memory_seen, uint64_t{1});
  if (!ring.Push(record)) ring.Count(&rocattach_ring::memory_dropped, uint64_t{1});
}

template <typename Allocate>
hsa_status_t NoteAllocation(size_t bytes, void** address, Allocate allocate) {
  const PlanState* plan = Wanted();
  if (plan == nullptr) return allocate();
  rocattach_memory record = {};
  record.start_ns = BootNs();
  const hsa_status_t status = allocate();
  record.end_ns = BootNs();
  if (status != HSA_STATUS_SUCCESS || address == nullptr) return status;
  record.operation = ROCATTACH_MEMORY_ALLOCATE;
  record.address = reinterpret_cast<uint64_t>(*address);
  record.bytes = bytes;
  hsa_amd_pointer_info_t info = {};
  info.size = sizeof(info);
  if (g_hsa.functions.pointer_info(*address, &info, nullptr, nullptr, nullptr) ==
          HSA_STATUS_SUCCESS &&
      info.type != HSA_EXT_POINTER_TYPE_UNKNOWN) {
    const Agent* owner = g_hsa.agents.Find(info.agentOwner);
    if (owner != nullptr) record.agent_id = owner->id;
  }
  Publish(plan, &record);
  return status;
}

template <typename Free>
hsa_status_t NoteFree(void* address, Free free) {
  const PlanState* plan = Wanted();
  if (plan == nullptr) return free();
  rocattach_memory record = {};
  record.operation = ROCATTACH_MEMORY_FREE;
  record.address = reinterpret_cast<uint64_t>(address);
  record.start_ns = BootNs();
  const hsa_status_t status = free();
  record.end_ns = BootNs();
  if (status == HSA_STATUS_SUCCESS && address != nullptr) Publish(plan, &record);
  return status;
}

hsa_status_t HookPoolAllocate(hsa_amd_memory_pool_t pool, size_t size, uint32_t flags,
                              void** address) {
  return NoteAllocation(size, address, [&] {
    return g_hsa.functions.memory_pool_allocate(pool, size, flags, address);
  });
}

hsa_status_t HookPoolFree(void* address) {
  return NoteFree(address, [&] { return g_hsa.functions.memory_pool_free(address); });
}

hsa_status_t HookMemoryAllocate(hsa_region_t region, size_t size, void** address) {
  return NoteAllocation(size, address, [&] {
    return g_hsa.functions.memory_allocate(region, size, address);
  });
}

hsa_status_t HookMemoryFree(void* address) {
  return NoteFree(address, [&] { return g_hsa.functions.memory_free(address); });
}

}  // namespace

void InstallMemoryHooks(ApiTableRoot* root, const AmdSlots& slots) {
  ReplaceEntry(root->core, kCoreMemoryAllocate, &HookMemoryAllocate);
  ReplaceEntry(root->core, kCoreMemoryFree, &HookMemoryFree);
  ReplaceEntry(root->amd_ext, slots.memory_pool_allocate, &HookPoolAllocate);
  ReplaceEntry(root->amd_ext, slots.memory_pool_free, &HookPoolFree);
}

}  // namespace rocattach::collector
