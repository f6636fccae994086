#include "userspace/collector/collector.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <new>

// Exit handlers of the C library; in contrast to atexit not bound to this library.
extern "C" int __cxa_atexit(void (*function)(void*), void* argument, void* dso);

namespace rocattach::collector {

constinit QueueRegistry g_queues;
constinit Collector g_collector;

namespace {

constexpr uint32_t kExitPatienceMsec = 50;
// The worker blocks all signals and calls nothing that waits: it only needs a CPU. The
// limit is for a process in which a debugger has stopped it.
constexpr uint32_t kWorkerPatienceMsec = 10'000;

// A forked child of an attached process is a process of its own, in which nothing of
// ours is set up; but hooks that the parent's runtime tables carried over must keep
// finding the runtime's functions.
void StartAnewInChild() {
  Collector& c = g_collector;
  c.environment.Restore();
  c.memory.Discard();
  HsaFunctions hsa = c.hsa;
  ApiTable* core_table = c.core_table;
  AmdSlots slots = c.amd_slots;
  const bool own_queues = c.queues_are_the_runtimes;
  const LiveEntry live = c.live;
  new (&g_queues) QueueRegistry();
  new (&c) Collector();
  c.live.KeepInChild(live);
  c.queues_are_the_runtimes = own_queues;
  c.hsa = hsa;
  c.core_table = core_table;
  c.amd_slots = slots;
}

// Arranges that the runtime comes to us. 0 or an errno.
int Enter() {
  Collector& c = g_collector;
  if (c.config.backend < ROCATTACH_BACKEND_SDK) {
    const char* why =
        c.live.Install(reinterpret_cast<const void*>(c.config.window_address));
    if (why == nullptr) return 0;
    c.NoteEntry(why);
  }
  return InstallVariables();
}

int SetUp(const rocattach_collector_config& config) {
  Collector& c = g_collector;
  int error = c.guard.Arm();
  if (error == 0) error = c.memory.Create(config);
  if (error == 0) error = c.rings.Init(&c.memory);
  if (error == 0) error = c.tracker.Init(&c.memory, &c.hsa);
  if (error == 0) {
    c.config = config;
    c.plans.Init(&c.memory);
    c.dictionary.Init(&c.memory);
    c.capture.Init(&c.tracker, &c.kernels, &c.plans);
    c.doorbell.Init(&c.capture, &c.hsa);
    c.copies.Init(&c.tracker, &c.agents, &c.hsa);
    c.environment.set_place(&environ);
    error = c.worker.Start(&c);
  }
  if (error == 0) error = Enter();
  if (error == 0) return 0;
  if (c.worker.running()) {
    // It looks at the memory: leave that to it. Nothing else has changed.
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseRefused));
  } else {
    c.memory.Discard();
  }
  return error;
}

}  // namespace

int InstallVariables() {
  Collector& c = g_collector;
  const char* path = c.config.collector_path;
  if (c.config.backend == ROCATTACH_BACKEND_SDK) {
    return c.environment.Install(path, ToolVariables::kSdk);
  }
  if (c.config.backend == ROCATTACH_BACKEND_SDK_ATTACH) return 0;
  // A runtime that comes again finds the SDK that a session has brought.
  return c.environment.Install(path, c.late.present()
                                         ? ToolVariables::kHsaToolsBesideSdk
                                         : ToolVariables::kHsaTools);
}

int Start(const rocattach_collector_config* config) {
  Collector& c = g_collector;
  if (config == nullptr) return EINVAL;
  if (c.guard.armed() && !c.guard.Ours()) StartAnewInChild();
  TinyLockHolder hold(c.start_lock);
  uint32_t phase = LoadAcquire(&c.phase);
  if (phase == kPhaseNone) {
    Geometry geometry;
    if (c.guard.armed() || !ComputeGeometry(*config, &geometry)) return EINVAL;
    int error = SetUp(*config);
    if (error != 0) return error;
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseLoaded));
  } else if (phase == kPhaseLoaded || phase == kPhaseUnloaded) {
    if (!c.live.installed()) {
      TinyLockHolder again(c.again_lock);
      c.environment_until_ns = 0;  // from here on until OnLoad
      int error = InstallVariables();
      if (error != 0) return error;
    }
  }
  return c.memory.valid() ? 0 : EINVAL;
}

void Collector::PublishBackend(rocattach_backend backend, rocattach_backend_reason why,
                               const char* text) {
  rocattach_control* control = memory.control();
  size_t bytes = strnlen(text, sizeof(control->backend_text) - 1);
  memcpy(control->backend_text, text, bytes);
  control->backend_text[bytes] = '\0';
  StoreRelaxed(&control->backend_reason, static_cast<uint32_t>(why));
  StoreRelease(&control->backend, static_cast<uint32_t>(backend));
}

void Collector::NoteEntry(const char* why) {
  rocattach_control* control = memory.control();
  const size_t bytes = strnlen(why, sizeof(control->entry_text) - 1);
  memcpy(control->entry_text, why, bytes);
  control->entry_text[bytes] = '\0';
}

void Collector::NoteFailedInit(hsa_status_t status) {
  if (LoadAcquire(&phase) != kPhaseLoaded) return;
  StoreRelaxed(&memory.control()->init_status, static_cast<uint32_t>(status));
}

void Collector::RegisterEnd() {
  // Exit handlers run in reverse order, and the runtime's were registered earlier.
  __cxa_atexit([](void*) { collector::End(); }, nullptr, nullptr);
}

void Collector::WaitForService() {
  rocattach_control* control = memory.control();
  // In parts: where the machine stands still for a while (a virtual machine that is
  // paused), one of them is over, not the whole wait.
  constexpr uint32_t kParts = 8;
  const uint32_t part_msec = (config.map_wait_msec + kParts - 1) / kParts;
  for (uint32_t i = 0; i < kParts && part_msec != 0; ++i) {
    if (LoadAcquire(&control->service_mapped) != 0) return;
    FutexWait(&control->service_mapped, 0, part_msec);
  }
}

void Collector::PreparePool() {
  if (pool_failed || !pool_lock.TryLock()) return;
  if (!tracker.signals().ready() && !pool_failed) {
    pool_failed =
        tracker.signals().Allocate(hsa, agents, memory.geometry().inflight_count) !=
        HSA_STATUS_SUCCESS;
  }
  pool_lock.Unlock();
}

template <typename Function>
void Collector::ForEachLockedQueue(RingHandle* ring, Function function) {
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr) continue;
    if (!q->lock.LockFor(kExitPatienceMsec)) continue;
    function(q);
    doorbell.Leave(q, ring);
  }
}

void Collector::CatchUpAll(RingHandle* ring) {
  if (!Recording(ROCATTACH_PLAN_DISPATCHES)) return;
  ForEachLockedQueue(ring, [&](Queue* q) {
    if (q->intercepted || q->closing || q->amd == nullptr) return;
    doorbell.ServeNew(q, ring);
    doorbell.CatchUp(q, ring);
  });
}

void Collector::HarvestAll(RingHandle* ring, bool rest_too) {
  ForEachLockedQueue(ring, [&](Queue* q) {
    HarvestContext context = capture.Context(q, ring);
    tracker.Harvest(&q->ops, context, UINT32_MAX, UINT32_MAX);
    if (rest_too) tracker.PublishUnfinished(&q->ops, context);
  });
  copies.HarvestAll(ring);
  if (rest_too) copies.PublishUnfinished(ring);
  rings.UpdateTotals();
}

// At exit. Other threads may go on dispatching: from here on their hooks pass through.
void End() {
  ErrnoKeeper keep_errno;
  Collector& c = g_collector;
  if (!c.guard.Ours()) return;
  c.environment.Restore();
  uint32_t phase = LoadAcquire(&c.phase);
  if (phase == kPhaseEnded || phase == kPhaseRefused) return;
  // While the callbacks are still heard: stopping delivers what is under way.
  bool by_sdk = c.sdk.in_force();
  if (by_sdk) c.sdk.End();
  c.late.End();
  // A worker inside the runtime finishes its round first. One that never does keeps us
  // from calling the runtime ourselves: what is in flight stays in its table.
  // On a crowded machine that takes its time, and what it reads is unmapped by exit
  // handlers that come after us.
  bool alone = c.runtime_lock.LockFor(kWorkerPatienceMsec);
  const bool harvest = alone && phase == kPhaseArmed && !by_sdk;
  RingHandle ring;
  if (harvest) {
    ring = c.rings.Mine();
    c.CatchUpAll(&ring);
  }
  StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseEnded));
  if (harvest) c.HarvestAll(&ring, /*rest_too=*/true);
  c.rings.UpdateTotals();
  StoreRelaxed(&c.memory.control()->ended_ns, BootNs());
  c.memory.SetState(ROCATTACH_STATE_ENDED);
}

}  // namespace rocattach::collector
