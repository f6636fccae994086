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
  new (&g_queues) QueueRegistry();
  new (&c) Collector();
  c.hsa = hsa;
  c.core_table = core_table;
  c.amd_slots = slots;
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
  if (error == 0) error = InstallVariables();
  if (error == 0) return 0;
  if (c.worker.running()) {
    // It looks at the memory: leave that to it. Nothing else has changed.
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseRefused));
  } else {
    c.memory.Discard();
  }
  return error;
}

// We are here by HSA_TOOLS_LIB: either nobody asked for the SDK, or it did not take us.
void PublishHsaTools() {
  Collector& c = g_collector;
  StoreRelaxed(&c.memory.control()->record_kinds,
               ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COPIES);
  if (c.config.backend < ROCATTACH_BACKEND_SDK) {
    c.PublishBackend(ROCATTACH_BACKEND_HSA_TOOLS, ROCATTACH_BACKEND_REASON_DEFAULT,
                     "hardware counters and API calls need rocprofiler-sdk, which "
                     "nobody asked for when this process started");
  } else if (c.sdk.reason() != ROCATTACH_BACKEND_REASON_NONE) {
    c.PublishBackend(ROCATTACH_BACKEND_HSA_TOOLS, c.sdk.reason(), c.sdk.text());
  } else {
    c.PublishBackend(ROCATTACH_BACKEND_HSA_TOOLS, ROCATTACH_BACKEND_REASON_NO_REGISTER,
                     "the runtime did not ask rocprofiler-register for its tools, or "
                     "that found no rocprofiler-sdk");
  }
}

// Reads the tables; why that failed, or nullptr. Touches nothing.
const char* Understand(ApiTableRoot* root, rocattach_collector_reason* reason) {
  Collector& c = g_collector;
  rocattach_control* control = c.memory.control();
  *reason = ROCATTACH_REASON_UNKNOWN_TABLE;
  const char* why = CheckTables(root, &c.amd_slots);
  if (root != nullptr && root->version.minor_id >= sizeof(ApiTableRoot)) {
    if (root->core != nullptr) control->core_table_bytes = root->core->version.minor_id;
    if (root->amd_ext != nullptr) {
      control->amd_table_bytes = root->amd_ext->version.minor_id;
    }
  }
  if (root == nullptr || why != nullptr) return why;
  UnhookInit(root->core);
  if (!HooksInPlace(root) && !c.hsa.Load(root, c.amd_slots))
    return "the runtime's API table has a null entry";
  *reason = ROCATTACH_REASON_HSA_ERROR;
  uint16_t major = 0, minor = 0;
  c.hsa.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major);
  c.hsa.system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor);
  control->runtime_version_major = major;
  control->runtime_version_minor = minor;
  if (c.agents.Load(c.hsa, &c.dictionary) != HSA_STATUS_SUCCESS) {
    return "hsa_iterate_agents failed";
  }
  *reason = ROCATTACH_REASON_NO_THREAD;
  if (!c.worker.running() && c.worker.Start(&c) != 0) return "pthread_create failed";
  return nullptr;
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
    Layout layout;
    if (c.guard.armed() || !ComputeLayout(*config, &layout)) return EINVAL;
    int error = SetUp(*config);
    if (error != 0) return error;
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseLoaded));
  } else if (phase == kPhaseLoaded || phase == kPhaseUnloaded) {
    TinyLockHolder again(c.again_lock);
    c.environment_until_ns = 0;  // from here on until OnLoad
    int error = InstallVariables();
    if (error != 0) return error;
  }
  return c.memory.valid() ? 0 : EINVAL;
}

bool Load(ApiTableRoot* root, uint64_t) {
  Collector& c = g_collector;
  if (!c.guard.Ours()) return true;
  {
    TinyLockHolder hold(c.start_lock);
    c.environment.Restore();
    uint32_t phase = LoadAcquire(&c.phase);
    if (c.sdk.in_force()) return true;
    if (phase != kPhaseLoaded && phase != kPhaseUnloaded) return true;
    rocattach_collector_reason reason;
    const char* why = Understand(root, &reason);
    if (why != nullptr) {
      StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseRefused));
      c.memory.Refuse(reason, why);
      return true;
    }
    c.core_table = root->core;
    c.tracker.clocks().Init(&c.hsa);
    c.executables.Init(&c.hsa, &c.agents, &c.dictionary, &c.kernels);
    c.intercept.Init(&c.capture, &c.hsa, c.amd_slots.intercept_overflow_asserts);
    if (phase == kPhaseLoaded) c.RegisterEnd();
    rocattach_control* control = c.memory.control();
    StoreRelaxed(&control->capture_mode, c.UseIntercept() ? 2u : 1u);
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseArmed));
    if (!HooksInPlace(root)) InstallHooks(root, c.amd_slots);
    StoreRelaxed(&control->armed_ns, BootNs());
    StoreRelaxed(&control->recording_acked, LoadRelaxed(&control->recording));
    PublishHsaTools();
    c.memory.SetState(ROCATTACH_STATE_ARMED);
  }
  c.WaitForService();
  TakeHsaPlan(&c, nullptr);
  c.worker.Wake();
  return true;
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
        tracker.signals().Allocate(hsa, agents, memory.layout().inflight_count) !=
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

void Collector::HarvestAll(RingHandle* ring) {
  ForEachLockedQueue(ring, [&](Queue* q) {
    HarvestContext context = capture.Context(q, ring);
    tracker.Harvest(&q->ops, context, UINT32_MAX, UINT32_MAX);
    tracker.PublishUnfinished(&q->ops, context);
  });
  copies.PublishRest(ring);
  rings.UpdateTotals();
}

namespace {

// Long enough for a thread to get a CPU and to come as far as looking for tools.
constexpr uint64_t kEnvironmentGraceNs = 50'000'000;

// Threads of the process; 0 if that cannot be found out.
uint32_t CountThreads() {
  char text[512];
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  // The name, in parentheses, is the second of its fields, num_threads the 20th.
  const char* at = strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 20; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : static_cast<uint32_t>(strtoul(at, nullptr, 10));
}

// For threads that entered hsa_init before our hook was there:
// 1. They wait for the runtime's lock, which the caller of OnUnload holds.
// 2. When it is free, one of them loads the runtime anew, past our hook, and looks for
//    tools in the environment.
// Whether there are such threads cannot be seen. In a process that has no threads
// beside the caller and our worker there are none.
void LetWaitingThreadsFindUs() {
  Collector& c = g_collector;
  if (CountThreads() == 2) return;
  TinyLockHolder hold(c.again_lock);
  if (InstallVariables() != 0) return;
  c.environment_until_ns = BootNs() + kEnvironmentGraceNs;
}

}  // namespace

uint32_t ExpireEnvironment() {
  Collector& c = g_collector;
  TinyLockHolder hold(c.again_lock);
  if (c.environment_until_ns == 0) return 0;
  uint64_t now_ns = BootNs();
  bool waiting = LoadAcquire(&c.phase) == kPhaseUnloaded;
  if (waiting && (now_ns < c.environment_until_ns || c.inits_under_way != 0)) return 10;
  c.environment_until_ns = 0;
  if (waiting) c.environment.Restore();
  return 0;
}

// The runtime is about to free what its handles stand for. Queues that the application
// leaked are still there, so finished work can be read.
void Unload() {
  ErrnoKeeper keep_errno;
  Collector& c = g_collector;
  if (!c.guard.Ours() || LoadAcquire(&c.phase) != kPhaseArmed) return;
  if (c.sdk.in_force()) {
    c.sdk.RuntimeGone();
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseUnloaded));
    c.rings.UpdateTotals();
    c.memory.SetState(ROCATTACH_STATE_UNLOADED);
    return;
  }
  // Its plan is taken up again when the runtime is back.
  if (c.late.Pause()) c.plans.Reconsider();
  // Without a limit: what the worker looks at under this lock is freed next. It calls
  // nothing there that could wait.
  c.runtime_lock.Lock();
  RingHandle ring = c.rings.Mine();
  c.CatchUpAll(&ring);
  StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseUnloaded));
  c.HarvestAll(&ring);
  for (uint32_t i = 0; i < c.queues.count(); ++i) {
    Queue* q = c.queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr) continue;
    c.queues.Hide(q);
    if (q->lock.LockFor(kExitPatienceMsec)) {
      // A thread that rings even now may have added some.
      c.tracker.PublishUnfinished(&q->ops, c.capture.Context(q, &ring));
      c.tracker.Retire(&q->ops);
      q->marker_count = 0;
      c.queues.Free(q);
      q->lock.Unlock();
    }
  }
  c.copies.RuntimeGone();
  c.tracker.signals().Drop();
  c.pool_failed = false;
  c.kernels.Forget();
  c.memory.SetState(ROCATTACH_STATE_UNLOADED);
  c.runtime_lock.Unlock();
  LetWaitingThreadsFindUs();
  c.worker.Wake();
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
  if (harvest) c.HarvestAll(&ring);
  c.rings.UpdateTotals();
  StoreRelaxed(&c.memory.control()->ended_ns, BootNs());
  c.memory.SetState(ROCATTACH_STATE_ENDED);
}

}  // namespace rocattach::collector
