// The functions that reserve packets: replaced in a late attach only, to find queues
// that were created before it.
#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/hooks.h"

namespace rocattach::collector {
namespace {

// The application is about to reserve packets. False if it passes before the collector is
// armed: then they count as unseen.
inline bool BeforeReserve(const hsa_queue_t* queue) {
  HsaBackend& h = g_hsa;
  if (Unlikely(!h.live.IsReady())) {
    if (h.live.IsBeingArmed()) return false;
    // Otherwise it may just have been armed.
    if (!g_process.Live() || h.live.KernelsAreLost()) return true;
  }
  if (h.old_queues.active()) h.old_queues.BeforeReserve(queue);
  return true;
}

__attribute__((noinline)) void CountPassed(uint64_t packets) {
  if (!g_hsa.recording.Dispatches()) return;
  RingHandle ring = g_process.rings.Mine();
  ring.Count(&rocattach_ring::packets_unseen, packets);
}

template <auto kFunction>
uint64_t HookAdd(const hsa_queue_t* queue, uint64_t count) {
  if (Unlikely(!BeforeReserve(queue))) CountPassed(count);
  return (g_hsa.functions.*kFunction)(queue, count);
}

template <auto kFunction>
uint64_t HookCas(const hsa_queue_t* queue, uint64_t expected, uint64_t value) {
  const bool seen = BeforeReserve(queue);
  const uint64_t before = (g_hsa.functions.*kFunction)(queue, expected, value);
  if (Unlikely(!seen) && before == expected) CountPassed(value - expected);
  return before;
}

template <auto kFunction>
void HookStore(const hsa_queue_t* queue, uint64_t value) {
  if (Unlikely(!BeforeReserve(queue))) {
    const uint64_t before = OldQueues::WriteIndexOf(queue);
    if (value > before) CountPassed(value - before);
  }
  (g_hsa.functions.*kFunction)(queue, value);
}

}  // namespace

void InstallOldQueueHooks(ApiTable* core) {
  using F = HsaFunctions;
  ReplaceEntry(core, kCoreQueueStoreWriteIndexRelaxed,
               &HookStore<&F::queue_store_write_index_relaxed>);
  ReplaceEntry(core, kCoreQueueStoreWriteIndexScrelease,
               &HookStore<&F::queue_store_write_index_screlease>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexScacqScrel,
               &HookCas<&F::queue_cas_write_index_scacq_screl>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexScacquire,
               &HookCas<&F::queue_cas_write_index_scacquire>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexRelaxed,
               &HookCas<&F::queue_cas_write_index_relaxed>);
  ReplaceEntry(core, kCoreQueueCasWriteIndexScrelease,
               &HookCas<&F::queue_cas_write_index_screlease>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexScacqScrel,
               &HookAdd<&F::queue_add_write_index_scacq_screl>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexScacquire,
               &HookAdd<&F::queue_add_write_index_scacquire>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexRelaxed,
               &HookAdd<&F::queue_add_write_index_relaxed>);
  ReplaceEntry(core, kCoreQueueAddWriteIndexScrelease,
               &HookAdd<&F::queue_add_write_index_screlease>);
}

}  // namespace rocattach::collector
