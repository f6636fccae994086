#include "userspace/collector/hsa/backend.h"

#include <new>

#include "userspace/collector/common/own_stack.h"

namespace rocattach::collector {

constinit QueueRegistry g_queues;
constinit HsaBackend g_hsa;

namespace {

constexpr uint32_t kExitPatienceMsec = 50;
// The worker blocks all signals and calls nothing that waits: it only needs a CPU. The
// limit is for a worker that a debugger has stopped.
constexpr uint32_t kWorkerPatienceMsec = 10'000;
// Operations that are published before the queue's lock is released to producers.
constexpr uint32_t kChunk = 16;
constexpr uint32_t kPatience = 256;
// When the application has seen that something ended: how many unfinished operations to
// look past. The packet processor has their signals' cache lines.
constexpr uint32_t kSeenUnfinished = 4;

}  // namespace

int HsaBackend::Init() {
  Process& p = g_process;
  const int error = tracker.Init(&p.memory, &functions);
  if (error != 0) return error;
  recording.Init(&p);
  capture.Init(&tracker, &kernels, &p);
  doorbell.Init(&capture, &functions, &recording);
  copies.Init(&tracker, &agents, &functions, &recording);
  return 0;
}

void HsaBackend::StartAnewInChild() {
  const HsaFunctions runtimes = functions;
  ApiTable* const table = core_table;
  const AmdSlots slots = amd_slots;
  const bool overflow_asserts = intercept_overflow_asserts;
  const bool batches = intercept_batches;
  const uint32_t not_proven = unproven;
  const bool own_queues = queues_are_the_runtimes;
  const LiveEntry entry = live;
  new (&g_queues) QueueRegistry();
  new (&g_old_queues) OldQueues();
  new (this) HsaBackend();
  live.KeepInChild(entry);
  queues_are_the_runtimes = own_queues;
  functions = runtimes;
  core_table = table;
  amd_slots = slots;
  intercept_overflow_asserts = overflow_asserts;
  intercept_batches = batches;
  unproven = not_proven;
}

void HsaBackend::Track(Queue* q, hsa_queue_t* queue, const Agent& agent,
                       bool intercepted, bool profiled, uint64_t first) {
  rocattach_queue_entry entry = {};
  entry.agent_id = agent.id;
  entry.packets = queue->size;
  entry.hsa_queue_id = queue->id;
  entry.created_ns = BootNs();
  const bool in_device = q->in_device || IsInDevice(queue);
  const bool has_metadata = HasMetadata(queue);
  if (in_device || has_metadata) StoreRelaxed(&saw_device_ring, 1u);
  TinyLockHolder hold(q->lock);
  q->in_device = in_device;
  q->has_metadata = has_metadata;
  q->doorbell = queue->doorbell_signal;
  q->packets = static_cast<uint8_t*>(queue->base_address);
  q->mask = queue->size - 1;
  q->agent = agent;
  q->hsa_id = queue->id;
  q->lost = false;
  q->id = g_process.dictionary.Append(ROCATTACH_ENTRY_QUEUE, &entry, nullptr, 0);
  q->intercepted = intercepted;
  q->many_producers = queue->type != HSA_QUEUE_TYPE_SINGLE;
  q->idle_end = q->rung = q->looked = q->resumed = q->next = q->forwarded =
      q->harvested = first;
  q->idled = 0;
  q->watched = Queue::kNotWatched;
  q->submitted = q->confirmed = q->marked = 0;
  q->marker_count = 0;
  q->deferred = 0;
  StoreRelaxed(&q->closing, false);
  q->profiled = profiled;
  q->clock.Reset();
  StoreRelease(&q->amd, reinterpret_cast<amd_queue_t*>(queue));
  if (!intercepted) queues.Publish(q);
}

bool HsaBackend::IsInDevice(const hsa_queue_t* queue) const {
  hsa_amd_pointer_info_t info = {};
  info.size = sizeof(info);
  if (functions.pointer_info(queue->base_address, &info, nullptr, nullptr, nullptr) !=
          HSA_STATUS_SUCCESS ||
      info.type == HSA_EXT_POINTER_TYPE_UNKNOWN) {
    return false;
  }
  const Agent* owner = agents.Find(info.agentOwner);
  return owner != nullptr && owner->gpu;
}

// A runtime that does not know the attribute has no such rings.
bool HsaBackend::HasMetadata(hsa_queue_t* queue) const {
  uint64_t value[8] = {};  // more than any attribute has
  return functions.queue_get_info != nullptr &&
         functions.queue_get_info(queue, kQueueInfoMetadataRing, value) ==
             HSA_STATUS_SUCCESS &&
         value[0] != 0;
}

void HsaBackend::PreparePool() {
  if (pool_failed || !pool_lock.TryLock()) return;
  if (!tracker.signals().ready() && !pool_failed) {
    pool_failed = tracker.signals().Allocate(
                      functions, agents, g_process.memory.geometry().inflight_count) !=
                  HSA_STATUS_SUCCESS;
  }
  pool_lock.Unlock();
}

void HsaBackend::PreparePoolOnOwnStack() {
  // Without a pool, dispatches are recorded without their times.
  if (!pool_failed && !OnOwnStack([this] { PreparePool(); })) pool_failed = true;
}

template <typename Function>
void HsaBackend::ForEachLockedQueue(RingHandle* ring, Function function) {
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr) continue;
    if (!q->lock.LockFor(kExitPatienceMsec)) continue;
    function(q);
    doorbell.Leave(q, ring);
  }
}

void HsaBackend::CatchUpAll(RingHandle* ring) {
  const bool dispatches = recording.Dispatches();
  ForEachLockedQueue(ring, [&](Queue* q) {
    if (!q->intercepted) doorbell.CountInterrupted(q, ring);
    if (!dispatches || q->intercepted || q->closing || q->amd == nullptr || !MayRead(q))
      return;
    doorbell.ServeNew(q, ring);
    doorbell.CatchUp(q, ring);
  });
}

void HsaBackend::HarvestAll(RingHandle* ring, bool rest_too) {
  ForEachLockedQueue(ring, [&](Queue* q) {
    HarvestContext context = capture.Context(q, ring);
    tracker.Harvest(&q->ops, context, UINT32_MAX, UINT32_MAX);
  });
  copies.HarvestAll(ring);
  if (rest_too) PublishRest(ring);
  g_process.rings.UpdateTotals();
}

// Rings from now on pass without us. One that waits for a packet of another producer, whose
// own ring is for less, would be lost.
void HsaBackend::PassOnAll(RingHandle* ring) {
  ForEachLockedQueue(ring, [&](Queue* q) {
    const bool readable = !q->intercepted && !q->closing && q->amd != nullptr;
    if (readable && LoadRelaxed(&q->deferred) != 0) doorbell.PassOn(q);
  });
}

void HsaBackend::PublishRest(RingHandle* ring) {
  ForEachLockedQueue(ring, [&](Queue* q) {
    tracker.PublishUnfinished(&q->ops, capture.Context(q, ring));
  });
  copies.PublishUnfinished(ring);
}

void HsaBackend::CountLost(RingHandle* ring) {
  const bool count = recording.Dispatches();
  ForEachLockedQueue(ring, [&](Queue* q) {
    if (!q->lost || LoadRelaxed(&q->idled) != 0) return;
    StoreRelaxed(&q->idled, Queue::kIdled);
    if (count)
      ring->Count(&rocattach_ring::packets_unseen, uint64_t{1});  // as in Retire()
  });
}

void HsaBackend::PublishSeen() {
  RingHandle ring;
  bool any = false, out = false;
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    if (LoadAcquire(&q->ops.count) == 0 || !q->patience.Lock(&q->lock)) continue;
    if (!any) {
      ring = g_process.rings.Mine();
      out = live.TakenOut();
    }
    any = true;
    if (!q->closing && q->amd != nullptr && !out) {
      tracker.Harvest(&q->ops, capture.Context(q, &ring), UINT32_MAX, kSeenUnfinished);
    }
    if (q->intercepted) {
      q->lock.Unlock();
    } else {
      doorbell.Leave(q, &ring);
    }
  }
  if (out || !copies.Pending()) return;
  if (!any && live.TakenOut()) return;
  if (!any) ring = g_process.rings.Mine();
  copies.HarvestSeen(&ring);
}

bool HsaBackend::Tick(RingHandle* ring) {
  // A thread that shuts the runtime down keeps this lock.
  if (!runtime_lock.TryLock()) return false;
  bool busy = false;
  if (LoadAcquire(&g_process.phase) == kPhaseArmed) {
    live.StoreAgain(ring);
    const bool dispatches = recording.Dispatches();
    for (uint32_t i = 0; i < queues.count() && !live.TakenOut(); ++i) {
      Queue* q = queues.at(i);
      if (LoadAcquire(&q->amd) != nullptr) busy |= TickQueue(q, ring, dispatches);
    }
    if (!live.TakenOut()) copies.Harvest(ring);
    busy = busy || copies.Pending() || live.StoresSoon();
  }
  runtime_lock.Unlock();
  return busy;
}

bool HsaBackend::TickQueue(Queue* q, RingHandle* ring, bool dispatches) {
  if (!dispatches && LoadRelaxed(&q->ops.count) == 0 &&
      LoadRelaxed(&q->deferred) == 0) {
    return false;
  }
  if (!q->lock.TryLock()) return true;
  if (q->closing || q->amd == nullptr) {
    q->lock.Unlock();
    return false;
  }
  const bool read = !q->intercepted && MayRead(q);
  if (read) {
    if (LoadRelaxed(&q->deferred) != 0) doorbell.Serve(q, ring);
    doorbell.ServeNew(q, ring);
    // A queue that advances although no ring came through the runtime.
    if (dispatches && doorbell.CatchUp(q, ring) && LoadAcquire(&q->rung) == 0 &&
        LoadRelaxed(&q->resumed) == 0) {
      StoreRelaxed(&saw_bypassed_doorbell, 1u);
    }
  }
  uint32_t oldest = q->ops.head;
  uint32_t published = 0;
  for (;;) {
    uint32_t n = tracker.Harvest(&q->ops, capture.Context(q, ring), kChunk, kPatience);
    published += n;
    if (read) doorbell.ServeNew(q, ring);
    if (n == 0) break;
  }
  if (q->ops.head == oldest && published > kPatience) tracker.Rotate(&q->ops);
  // What is in flight on a lost queue may never end.
  bool busy = !q->lost && (q->ops.count != 0 || LoadRelaxed(&q->deferred) != 0);
  if (q->intercepted) {
    q->lock.Unlock();
  } else {
    doorbell.Leave(q, ring);
  }
  return busy;
}

// Other threads may continue to dispatch.
void HsaBackend::End(bool in_use) {
  Process& p = g_process;
  // A worker inside the runtime finishes its round first. If it never does, we cannot
  // call the runtime ourselves: what is in flight stays in its table. On a busy machine
  // this takes time, and what the worker reads is unmapped by later exit handlers.
  const bool alone = runtime_lock.LockFor(kWorkerPatienceMsec);
  const bool harvest = alone && in_use;
  RingHandle ring;
  bool readable = true;
  if (harvest) {
    ring = p.rings.Mine();
    if (live.TakenOut()) {
      (void)LoseTrack(&ring);
      readable = RuntimeIsTheSame();
    }
    if (readable) {
      CatchUpAll(&ring);
      HarvestAll(&ring, /*rest_too=*/false);
    }
  }
  // From here on packets pass unseen, and with them the reuse of signals.
  StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseEnded));
  tracker.app_signals().StopReading();
  if (!harvest) return;
  if (readable) {
    HarvestAll(&ring, /*rest_too=*/true);
    PassOnAll(&ring);
  } else {
    PublishRest(&ring);
  }
  CountLost(&ring);
}

}  // namespace rocattach::collector
