#include "userspace/collector/hsa/functions.h"

#include "userspace/abi/atomics.h"

namespace rocattach::collector {
namespace {

template <typename F>
bool Read(const ApiTable* table, uint32_t slot, F* function) {
  *function = slot == kNoSlot ? nullptr : reinterpret_cast<F>(table->slots[slot]);
  return *function != nullptr;
}

template <typename... A>
hsa_status_t Missing(A...) {
  return HSA_STATUS_ERROR;
}

// All members are pointers to functions.
constexpr size_t kFunctions = sizeof(HsaFunctions) / sizeof(void*);
static_assert(sizeof(HsaFunctions) == kFunctions * sizeof(void*));

void* const* All(const HsaFunctions& functions) {
  return reinterpret_cast<void* const*>(&functions);
}

// Code that needs a missing function does without it, as if the runtime had failed.
template <typename... A>
void ReadAmd(const ApiTable* table, uint32_t slot, hsa_status_t (**function)(A...)) {
  if (!Read(table, slot, function)) *function = &Missing<A...>;
}

}  // namespace

bool DescribesQueue(const QueueDescriptor& d) {
  const hsa_queue_t* queue = d.queue;
  if (queue == nullptr || reinterpret_cast<uintptr_t>(queue) % 64 != 0) return false;
  if (queue->base_address == nullptr || queue->doorbell_signal.handle == 0)
    return false;
  // Queues of copy engines have as many bytes as were requested.
  if (d.engine_type != QueueDescriptor::kCompute) return queue->size == d.queue_bytes;
  const uint32_t packets = queue->size;
  return packets != 0 && (packets & (packets - 1)) == 0 &&
         uint64_t{packets} * sizeof(hsa_kernel_dispatch_packet_t) == d.queue_bytes;
}

bool HsaFunctions::Load(const ApiTableRoot* root, const AmdSlots& a) {
  const ApiTable* core = root->core;
  const ApiTable* amd = root->amd_ext;
  Read(amd, a.memory_async_copy_on_engine, &memory_async_copy_on_engine);
  Read(amd, a.queue_create, &amd_queue_create);
  Read(amd, a.memory_async_batch_copy, &memory_async_batch_copy);
  Read(amd, a.queue_get_info, &queue_get_info);
  ReadAmd(amd, a.profiling_set_profiler_enabled, &set_profiler_enabled);
  ReadAmd(amd, a.profiling_async_copy_enable, &async_copy_enable);
  ReadAmd(amd, a.profiling_get_async_copy_time, &get_async_copy_time);
  ReadAmd(amd, a.profiling_convert_tick_to_system_domain, &convert_tick);
  ReadAmd(amd, a.memory_pool_get_info, &memory_pool_get_info);
  ReadAmd(amd, a.agent_iterate_memory_pools, &agent_iterate_memory_pools);
  ReadAmd(amd, a.memory_pool_allocate, &memory_pool_allocate);
  ReadAmd(amd, a.memory_pool_free, &memory_pool_free);
  ReadAmd(amd, a.memory_async_copy, &memory_async_copy);
  ReadAmd(amd, a.agents_allow_access, &agents_allow_access);
  ReadAmd(amd, a.pointer_info, &pointer_info);
  ReadAmd(amd, a.queue_intercept_create, &queue_intercept_create);
  ReadAmd(amd, a.queue_intercept_register, &queue_intercept_register);
  ReadAmd(amd, a.memory_async_copy_rect, &memory_async_copy_rect);
  return Read(core, kCoreInit, &init) && Read(core, kCoreShutDown, &shut_down) &&
         Read(core, kCoreSystemGetInfo, &system_get_info) &&
         Read(core, kCoreIterateAgents, &iterate_agents) &&
         Read(core, kCoreAgentGetInfo, &agent_get_info) &&
         Read(core, kCoreQueueCreate, &queue_create) &&
         Read(core, kCoreQueueDestroy, &queue_destroy) &&
         Read(core, kCoreQueueStoreWriteIndexRelaxed,
              &queue_store_write_index_relaxed) &&
         Read(core, kCoreQueueStoreWriteIndexScrelease,
              &queue_store_write_index_screlease) &&
         Read(core, kCoreQueueCasWriteIndexScacqScrel,
              &queue_cas_write_index_scacq_screl) &&
         Read(core, kCoreQueueCasWriteIndexScacquire,
              &queue_cas_write_index_scacquire) &&
         Read(core, kCoreQueueCasWriteIndexRelaxed, &queue_cas_write_index_relaxed) &&
         Read(core, kCoreQueueCasWriteIndexScrelease,
              &queue_cas_write_index_screlease) &&
         Read(core, kCoreQueueAddWriteIndexScacqScrel,
              &queue_add_write_index_scacq_screl) &&
         Read(core, kCoreQueueAddWriteIndexScacquire,
              &queue_add_write_index_scacquire) &&
         Read(core, kCoreQueueAddWriteIndexRelaxed, &queue_add_write_index_relaxed) &&
         Read(core, kCoreQueueAddWriteIndexScrelease,
              &queue_add_write_index_screlease) &&
         Read(core, kCoreMemoryAllocate, &memory_allocate) &&
         Read(core, kCoreMemoryFree, &memory_free) &&
         Read(core, kCoreMemoryCopy, &memory_copy) &&
         Read(core, kCoreSignalDestroy, &signal_destroy) &&
         Read(core, kCoreSignalLoadRelaxed, &signal_load_relaxed) &&
         Read(core, kCoreSignalLoadScacquire, &signal_load_scacquire) &&
         Read(core, kCoreSignalWaitRelaxed, &signal_wait_relaxed) &&
         Read(core, kCoreSignalWaitScacquire, &signal_wait_scacquire) &&
         Read(core, kCoreSignalStoreRelaxed, &signal_store_relaxed) &&
         Read(core, kCoreSignalStoreScrelease, &signal_store_screlease) &&
         Read(core, kCoreSignalSilentStoreRelaxed, &signal_silent_store_relaxed) &&
         Read(core, kCoreSignalSilentStoreScrelease, &signal_silent_store_screlease) &&
         Read(core, kCoreExecutableDestroy, &executable_destroy) &&
         Read(core, kCoreExecutableFreeze, &executable_freeze) &&
         Read(core, kCoreExecutableSymbolGetInfo, &executable_symbol_get_info) &&
         Read(core, kCoreSystemGetMajorExtensionTable,
              &system_get_major_extension_table) &&
         Read(core, kCoreExecutableIterateAgentSymbols,
              &executable_iterate_agent_symbols);
}

void HsaFunctions::CopyRuntimeFunctions(const HsaFunctions& later,
                                        const ElfObject& runtime) {
  auto* ours = reinterpret_cast<void**>(this);
  for (size_t i = 0; i < kFunctions; ++i) {
    void* function = All(later)[i];
    // Our functions may be calling them at this time.
    if (runtime.Contains(function)) StoreRelease(&ours[i], function);
  }
}

bool HsaFunctions::Has(const void* function) const {
  for (size_t i = 0; function != nullptr && i < kFunctions; ++i) {
    if (LoadRelaxed(&All(*this)[i]) == function) return true;
  }
  return false;
}

}  // namespace rocattach::collector
