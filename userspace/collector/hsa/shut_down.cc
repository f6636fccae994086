// The end of a runtime that may start again: in OnUnload if we were loaded by OnLoad,
// and around hsa_shut_down if our functions are in the live table.
#include "userspace/collector/hsa/backend.h"

namespace rocattach::collector {
namespace {

constexpr uint32_t kExitPatienceMsec = 50;

}  // namespace

// With the runtime's lock, so that our worker does not read what the runtime is about
// to free. Publishes what has finished; the rest may still finish, unless this is the
// end.
void HsaBackend::PublishFinished(RingHandle* ring) {
  if (live.TakenOut()) (void)LoseTrack(ring);
  CatchUpAll(ring);
  HarvestAll(ring, /*rest_too=*/false);
  CountLost(ring);
}

// The runtime has freed its queues, or is about to. They must not be read.
void HsaBackend::ForgetRuntime(RingHandle* ring) {
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr) continue;
    queues.Hide(q);
    if (q->lock.LockFor(kExitPatienceMsec)) {
      tracker.PublishUnfinished(&q->ops, capture.Context(q, ring));
      tracker.Retire(&q->ops);
      q->marker_count = 0;
      queues.Free(q);
      q->lock.Unlock();
    }
  }
  copies.PublishUnfinished(ring);
  copies.RuntimeGone();
  tracker.signals().Drop();
  pool_failed = false;
  kernels.Forget();
  executables.Forget();
  old_queues.Forget();
  g_process.rings.UpdateTotals();
  g_process.memory.SetState(ROCATTACH_STATE_UNLOADED);
}

// Queues that the application leaked are still there, so finished work can be read.
void HsaBackend::Unload() {
  Process& p = g_process;
  // Without a time limit: what the worker reads under this lock is freed next. The
  // worker calls nothing there that could wait.
  runtime_lock.Lock();
  RingHandle ring = p.rings.Mine();
  PublishFinished(&ring);
  StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseUnloaded));
  // Packets that other threads have rung for meanwhile.
  HarvestAll(&ring, /*rest_too=*/false);
  ForgetRuntime(&ring);
  runtime_lock.Unlock();
  reentry.InstallForWaitingThreads();
  p.worker.Wake();
}

void HsaBackend::PrepareForShutDown() {
  ErrnoKeeper keep_errno;
  g_process.upcalls->hsa_shuts_down();
  runtime_lock.Lock();  // as above
  RingHandle ring = g_process.rings.Mine();
  PublishFinished(&ring);
}

void HsaBackend::ForgetLastRuntime(RingHandle* ring) {
  Process& p = g_process;
  // From here on another thread may open the runtime again without our hook for
  // hsa_init, which the table had lost. Then the first use of the runtime arms us,
  // and that waits for this lock.
  TinyLockHolder hold(p.start_lock);
  StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseUnloaded));
  live.Restore();
  ForgetRuntime(ring);
}

void HsaBackend::FinishShutDown(bool last) {
  Process& p = g_process;
  if (last) {
    RingHandle ring = p.rings.Mine();
    ForgetLastRuntime(&ring);
  }
  runtime_lock.Unlock();
  p.worker.Wake();
}

}  // namespace rocattach::collector
