// Late attach: another tool has put the runtime's tables back as they were before it came,
// and so taken our functions out. Until they are stored again, and until the application
// comes back with each queue, nothing that it may have destroyed meanwhile is read.
#include "userspace/collector/common/own_memory.h"
#include "userspace/collector/common/own_stack.h"
#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {
namespace {

// The next round, a few milliseconds later, tries again.
constexpr uint32_t kPatienceMsec = 1;

}  // namespace

void HsaBackend::Lose(Queue* q) {
  queues.Hide(q);
  StoreRelaxed(&any_lost, 1u);
  StoreRelaxed(&q->lost, true);
  // Only if a ring waits: the queue may be gone.
  if (!q->intercepted && LoadRelaxed(&q->deferred) != 0) doorbell.PassOn(q);
}

bool HsaBackend::LoseTrack(RingHandle* ring) {
  bool all = true;
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr || LoadRelaxed(&q->lost)) continue;
    // A thread that has it locked is inside a call with it.
    if (!q->lock.LockFor(kPatienceMsec)) {
      all = false;
      continue;
    }
    if (!q->closing && q->amd != nullptr) Lose(q);
    doorbell.Leave(q, ring);
  }
  old_queues.Forget();
  tracker.app_signals().LoseAll();
  copies.LoseProfiling();
  executables.EraseAll();
  live.LoseKernels();
  return all;
}

bool HsaBackend::MayRead(Queue* q) {
  if (q->lost || live.TakenOut()) return false;
  if (Likely(!live.DestroyIsForeign())) return true;
  // Where the kernel copies neither, nothing tells whether it is there.
  amd_queue_t now;
  char packet;
  if (CopyOwnMemory(q->amd, &now, sizeof(now)) && IsSame(*q, now) &&
      CopyOwnMemory(q->packets, &packet, sizeof(packet))) {
    return true;
  }
  Lose(q);
  return false;
}

void HsaBackend::Regain(const hsa_queue_t* handle) {
  if (Likely(LoadRelaxed(&any_lost) == 0) || handle == nullptr) return;
  if (live.TakenOut()) return;
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    const auto* amd = reinterpret_cast<const amd_queue_t*>(handle);
    if (!LoadRelaxed(&q->lost) || LoadAcquire(&q->amd) != amd) continue;
    RingHandle ring = g_process.rings.Mine();
    q->lock.Lock();
    if (q->lost && q->amd == amd) {
      if (!IsSame(*q, *amd)) {
        Retire(q, &ring);
      } else if (queues.FindByHandle(handle) != nullptr) {
        // It has been found in another way. What is in flight here still ends.
        StoreRelaxed(&q->idled, Queue::kIdled);
      } else {
        if (!q->intercepted) doorbell.Skip(q, recording.Dispatches(), &ring);
        q->profiled = false;  // as far as we know
        StoreRelaxed(&q->lost, false);
        if (!q->intercepted) queues.Publish(q);
      }
    }
    doorbell.Leave(q, &ring);
  }
}

// How many packets were submitted before it was destroyed, nobody knows: it counts as one.
void HsaBackend::Retire(Queue* q, RingHandle* ring) {
  if (recording.Dispatches()) ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});
  const HarvestContext context = capture.Context(q, ring);
  tracker.Harvest(&q->ops, context, UINT32_MAX, UINT32_MAX);
  tracker.PublishUnfinished(&q->ops, context);
  tracker.Retire(&q->ops);
  q->marker_count = 0;
  queues.Free(q);
}

void HsaBackend::ReadLostKernels() {
  if (!live.KernelsAreLost()) return;
  const auto read = [this] {
    TinyLockHolder hold(g_process.start_lock);
    const bool armed = LoadAcquire(&g_process.phase) == kPhaseArmed;
    if (armed && live.KernelsAreLost()) LoadKernels();
  };
  // Without a stack for that, kernels have no names.
  if (!OnOwnStack(read)) live.KernelsRead(live.kernels_lost());
}

void HsaBackend::LoadKernels() {
  const uint32_t lost = live.kernels_lost();
  executables.EraseAll();
  executables.LoadedBefore();
  live.KernelsRead(lost);
}

bool HsaBackend::RuntimeIsTheSame() {
  if (!LiveEntry::RuntimeIsOpen()) return false;
  if (!tracker.signals().ready()) return true;
  const void* pool = tracker.signals().at(0);
  const size_t bytes =
      size_t{g_process.memory.geometry().inflight_count} * sizeof(amd_signal_t);
  hsa_amd_pointer_info_t info = {};
  info.size = sizeof(info);
  return functions.pointer_info(pool, &info, nullptr, nullptr, nullptr) ==
             HSA_STATUS_SUCCESS &&
         info.type == HSA_EXT_POINTER_TYPE_HSA && info.hostBaseAddress == pool &&
         info.sizeInBytes >= bytes;
}

}  // namespace rocattach::collector
