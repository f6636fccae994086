#include "userspace/collector/hsa/backend.h"

#include <stdio.h>

#include <new>

#include "userspace/collector/common/own_memory.h"
#include "userspace/collector/common/own_stack.h"
#include "userspace/collector/hsa/hooks.h"
#include "userspace/collector/hsa/other_tool.h"

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
// Number of unfinished operations to look past when the application has seen one end.
// The packet processor has their signals' cache lines.
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

// From now on rings bypass us. A ring that waits for a packet of another producer would
// be lost, because that producer's own ring is for less.
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
      out = live.MayBeBypassed();
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
  if (!any && live.MayBeBypassed()) return;
  if (!any) ring = g_process.rings.Mine();
  copies.HarvestSeen(&ring);
}

bool HsaBackend::Tick(RingHandle* ring) {
  // A thread that shuts the runtime down holds this lock.
  if (!runtime_lock.TryLock()) return false;
  bool busy = false;
  if (LoadAcquire(&g_process.phase) == kPhaseArmed) {
    live.StoreAgain(ring);
    const bool dispatches = recording.Dispatches();
    for (uint32_t i = 0; i < queues.count() && !live.MayBeBypassed(); ++i) {
      Queue* q = queues.at(i);
      if (LoadAcquire(&q->amd) != nullptr) busy |= TickQueue(q, ring, dispatches);
    }
    if (!live.MayBeBypassed()) copies.Harvest(ring);
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
    // This queue advances although no ring came through the runtime.
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
  // Operations in flight on a lost queue may never end.
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
  // call the runtime ourselves: operations in flight stay in their table. The wait may
  // be long on a busy machine, but later exit handlers unmap what the worker reads.
  const bool alone = runtime_lock.LockFor(kWorkerPatienceMsec);
  const bool harvest = alone && in_use;
  RingHandle ring;
  bool readable = true;
  if (harvest) {
    ring = p.rings.Mine();
    if (live.MayBeBypassed()) {
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

// Arms the collector once the runtime is open.

namespace {

void PublishTableSizes(const ApiTableRoot* root) {
  rocattach_control* control = g_process.memory.control();
  if (root == nullptr || root->version.minor_id < sizeof(ApiTableRoot)) return;
  if (root->core != nullptr) control->core_table_bytes = root->core->version.minor_id;
  if (root->amd_ext != nullptr) {
    control->amd_table_bytes = root->amd_ext->version.minor_id;
  }
}

bool WaitsForRuntime(uint32_t phase) {
  return phase == kPhaseLoaded || phase == kPhaseUnloaded;
}

}  // namespace

const BackendReason kDefaultBackend = {ROCATTACH_BACKEND_REASON_DEFAULT,
                                       "hardware counters and API calls need "
                                       "rocprofiler-sdk, which was not requested when "
                                       "this process started"};

// Reads the tables that were passed to OnLoad, and does not change them. Returns the
// reason for a failure, or nullptr.
const char* HsaBackend::ReadTables(ApiTableRoot* root) {
  PublishTableSizes(root);
  LiveTables tables;
  if (const char* why = ProveTables(root, &tables)) return why;
  UseTables(tables);
  UnhookInit(root->core);
  if (HooksInPlace(root)) return nullptr;
  if (!functions.Load(root, amd_slots)) {
    return "the runtime's API table has a null entry";
  }
  FindQueueOwner(root->core);
  tracker.set_times_are_ours(queues_are_the_runtimes);
  return nullptr;
}

// Queries the open runtime for what records refer to.
const char* HsaBackend::ReadRuntime(rocattach_collector_reason* reason) {
  Process& p = g_process;
  rocattach_control* control = p.memory.control();
  *reason = ROCATTACH_REASON_HSA_ERROR;
  uint16_t major = 0, minor = 0;
  functions.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
  functions.system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
  control->runtime_version_major = major;
  control->runtime_version_minor = minor;
  if (agents.Load(functions, &p.dictionary, &p.agent_ids) != HSA_STATUS_SUCCESS) {
    return "hsa_iterate_agents failed";
  }
  *reason = ROCATTACH_REASON_NO_THREAD;
  if (!p.worker.running() && p.worker.Start() != 0) return "pthread_create failed";
  return nullptr;
}

// With the start lock: sets up everything that hooks need.
void HsaBackend::BeginRecording(rocattach_entry_path entry, ApiTableRoot* root,
                                const BackendReason& reason) {
  Process& p = g_process;
  core_table = root->core;
  tracker.clocks().Init(&functions);
  executables.Init(&functions, &agents, &p.dictionary, &kernels);
  intercept.Init(&capture, &functions, intercept_overflow_asserts);
  if (LoadAcquire(&p.phase) == kPhaseLoaded) p.RegisterEnd();
  rocattach_control* control = p.memory.control();
  StoreRelaxed(&control->entry, static_cast<uint32_t>(entry));
  NameOtherTool(root->core, control->other_tool, sizeof(control->other_tool));
  StoreRelaxed(&control->capture_mode, UseIntercept() ? 2u : 1u);
  // Before any hook sees that we are armed: they wait until the kernels are known.
  if (entry == ROCATTACH_ENTRY_PATH_LATE) LoadKernels();
  old_queues.Begin(/*late=*/entry == ROCATTACH_ENTRY_PATH_LATE);
  StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseArmed));
  if (entry == ROCATTACH_ENTRY_PATH_TOOLS_LIB && !HooksInPlace(root)) {
    InstallHooks(root, amd_slots);
  }
  StoreRelaxed(&control->armed_ns, BootNs());
  StoreRelaxed(&control->record_kinds, ROCATTACH_PLAN_RECORD_DISPATCHES |
                                           ROCATTACH_PLAN_RECORD_COPIES |
                                           ROCATTACH_PLAN_RECORD_MEMORY);
  PublishBackend(reason);
  p.memory.SetState(ROCATTACH_STATE_ARMED);
}

// Names the functions of this runtime that we do not understand, as far as they fit.
void HsaBackend::PublishBackend(const BackendReason& reason) {
  char text[sizeof(rocattach_control::backend_text)] = "";
  size_t used = 0;
  for (uint32_t i = 0; unproven != 0 && UnprovenName(i) != nullptr; ++i) {
    if ((unproven & 1u << i) == 0 || used >= sizeof(text)) continue;
    const int more = snprintf(text + used, sizeof(text) - used, "%s%s",
                              used == 0 ? "not understood in this runtime: " : ", ",
                              UnprovenName(i));
    if (more > 0) used += static_cast<size_t>(more);
  }
  g_process.PublishBackend(ROCATTACH_BACKEND_HSA_TOOLS, reason.reason,
                           used == 0 ? reason.text : text);
}

bool HsaBackend::Arm(ApiTableRoot* root, const BackendReason& backend_reason) {
  if (live.installed() || !WaitsForRuntime(LoadAcquire(&g_process.phase))) return false;
  rocattach_collector_reason reason = ROCATTACH_REASON_UNKNOWN_TABLE;
  const char* why = ReadTables(root);
  if (why == nullptr) why = ReadRuntime(&reason);
  if (why != nullptr) {
    g_process.Refuse(reason, why);
    return false;
  }
  BeginRecording(ROCATTACH_ENTRY_PATH_TOOLS_LIB, root, backend_reason);
  return true;
}

bool HsaBackend::ArmByLiveTable(ApiTableRoot* root) {
  Process& p = g_process;
  TinyLockHolder hold(p.start_lock);
  if (!WaitsForRuntime(LoadAcquire(&p.phase))) return false;
  uint16_t major = 0;
  // Fails while the runtime is not open: a program may call other functions first.
  if (functions.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) !=
      HSA_STATUS_SUCCESS) {
    return false;
  }
  PublishTableSizes(root);
  rocattach_collector_reason reason;
  const char* why = ReadRuntime(&reason);
  if (why != nullptr) {
    p.Refuse(reason, why);
    return false;
  }
  BeginRecording(
      live.late() ? ROCATTACH_ENTRY_PATH_LATE : ROCATTACH_ENTRY_PATH_LIVE_TABLE, root,
      *live_reason);
  return true;
}

void HsaBackend::RefuseWithoutStack() {
  TinyLockHolder hold(g_process.start_lock);
  if (!WaitsForRuntime(LoadAcquire(&g_process.phase))) return;
  g_process.Refuse(ROCATTACH_REASON_NO_MEMORY,
                   "mmap, mprotect or rt_sigprocmask failed: no stack to arm on");
}

void HsaBackend::UseTables(const LiveTables& tables) {
  amd_slots = tables.slots;
  intercept_overflow_asserts = tables.intercept_overflow_asserts;
  intercept_batches = tables.intercept_batches;
  unproven = tables.unproven;
}

void HsaBackend::FindQueueOwner(const ApiTable* core) {
  ElfObject runtime;
  // Tables are static data of the runtime. If their owner is unknown (in tests), the
  // functions are assumed to be the runtime's.
  const bool known = ElfObject::Find(core, &runtime);
  const auto* create = reinterpret_cast<const void*>(functions.queue_create);
  queues_are_the_runtimes = !known || runtime.Contains(create);
}

// Late attach: another tool has put the runtime's tables back as they were before it
// came, without our functions. Until they are stored again, and until the application
// uses each queue again, nothing that it may have destroyed meanwhile is read.

namespace {

// The next round, a few milliseconds later, tries again.
constexpr uint32_t kPatienceMsec = 1;

}  // namespace

void HsaBackend::Lose(Queue* q) {
  queues.Hide(q);
  StoreRelaxed(&any_lost, 1u);
  StoreRelaxed(&q->lost, true);
  // Forward only if a ring waits: the queue may be gone.
  if (!q->intercepted && LoadRelaxed(&q->deferred) != 0) doorbell.PassOn(q);
}

bool HsaBackend::LoseTrack(RingHandle* ring) {
  bool all = true;
  for (uint32_t i = 0; i < queues.count(); ++i) {
    Queue* q = queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr || LoadRelaxed(&q->lost)) continue;
    // A thread that holds the queue's lock is inside a call with the queue.
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
  if (q->lost || live.MayBeBypassed()) return false;
  if (Likely(!live.DestroyIsForeign())) return true;
  // If the kernel can copy neither, it is not known whether the queue still exists.
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
  if (live.MayBeBypassed()) return;
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
        // The queue is tracked in another entry. Operations in flight here still end.
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

// The number of packets submitted before its destruction is not known: counts as one.
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
  // Without memory for a stack, kernels have no names.
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

// The end of a runtime that may start again: in OnUnload if we were loaded by OnLoad,
// and around hsa_shut_down if our functions are in the live table.

// With the runtime's lock, so that our worker does not read what the runtime is about
// to free. Publishes what has finished; the rest may still finish, unless this is the
// end.
void HsaBackend::PublishFinished(RingHandle* ring) {
  if (live.MayBeBypassed()) (void)LoseTrack(ring);
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
