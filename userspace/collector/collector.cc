#include "userspace/collector/collector.h"

#include <sys/auxv.h>

#include <new>

#include "userspace/collector/common/own_stack.h"
#include "userspace/collector/common/service_watch.h"

namespace rocattach::collector {
constinit Collector g_collector;

namespace {

// Waits until the service reads our memory, then executes its plan, if it has one.
void BeginService() {
  // In a late attach this thread is in the middle of the program's work.
  if (!g_process.late()) g_process.WaitForService();
  // If there is no memory for a stack, the worker takes the plan instead.
  (void)OnOwnStack([] { ApplyHsaPlan(nullptr); });
  g_process.worker.Wake();
}

// Pauses the SDK that a session has loaded, because it uses the runtime. Its plan
// resumes when the runtime is open again.
void PauseLateSdk() {
  if (g_collector.late.Pause()) g_process.plans.Reconsider();
}

constexpr Upcalls kUpcalls = {
    &RunWorker,
    [](void*) { End(); },
    &BeginService,
    &PauseLateSdk,
};

// A forked child of an attached process is a separate process, in which the collector
// is not set up; but hooks in the inherited runtime tables must still find the
// runtime's functions.
void StartAnewInChild() {
  g_process.environment.Restore();
  g_process.memory.Discard();
  g_hsa.StartAnewInChild();
  g_ring_gate.StartAnewInChild();
  new (&g_process) Process();
  new (&g_collector) Collector();
}

constexpr BackendReason kSdkInUse = {
    ROCATTACH_BACKEND_REASON_SDK_ERROR,
    "rocprofiler-sdk took its tools before hsa_init, for another tool in the process "
    "(HIP 6 and later ask for them that early), and takes no more"};

// Arranges for the runtime to call us. 0 or an errno.
int Enter() {
  Process& p = g_process;
  g_hsa.live_reason = &kDefaultBackend;
  if (p.config.backend == ROCATTACH_BACKEND_SDK && SdkHasItsTools()) {
    p.config.backend = ROCATTACH_BACKEND_HSA_TOOLS;
    g_hsa.live_reason = &kSdkInUse;
  }
  if (p.config.backend < ROCATTACH_BACKEND_SDK) {
    const char* why = g_hsa.live.Install(
        reinterpret_cast<const void*>(p.config.window_address), p.late());
    if (why == nullptr) return 0;
    // An open runtime no longer looks for tools.
    if (p.late()) {
      p.Refuse(ROCATTACH_REASON_UNKNOWN_TABLE, why);
      return 0;
    }
    p.PublishEntryFailure(why);
  }
  return p.InstallVariables();
}

int SetUp(const rocattach_collector_config& config) {
  Process& p = g_process;
  int error = p.SetUp(config, &kUpcalls);
  if (error == 0) error = g_hsa.Init();
  if (error == 0) error = p.worker.Start();
  if (error == 0) error = Enter();
  if (error == 0) return 0;
  if (p.worker.running()) {
    // The service reads the state from the shared memory. Nothing else has changed.
    StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseRefused));
  } else {
    p.memory.Discard();
  }
  return error;
}

// True while we wait for another program to make rocprofiler-sdk attach us.
bool WaitsForSdk() {
  return g_process.config.backend == ROCATTACH_BACKEND_SDK_ATTACH &&
         !g_collector.sdk.in_force();
}

// The reason why rocprofiler-sdk, although requested, has not called us. Called in
// OnLoad: by then the runtime has registered, if it registers at all.
BackendReason WhyNotAsked() {
  if (FindRegisterFunction("rocprofiler_register_library_api_table") == nullptr) {
    return {ROCATTACH_BACKEND_REASON_NO_REGISTER,
            "the process has no rocprofiler-register"};
  }
  // This version of the SDK does not report whether it has taken its tools.
  if (FindSdkFunction("rocprofiler_set_api_table") != nullptr) return kSdkInUse;
  // As with any variable that could load foreign code.
  if (getauxval(AT_SECURE) != 0) {
    return {ROCATTACH_BACKEND_REASON_NO_REGISTER,
            "rocprofiler-sdk takes no tools in a program that gains privileges "
            "(AT_SECURE)"};
  }
  if (IsRegisterOff()) {
    return {ROCATTACH_BACKEND_REASON_NO_REGISTER,
            "ROCPROFILER_REGISTER_ENABLED switches rocprofiler-register off in this "
            "process"};
  }
  return {ROCATTACH_BACKEND_REASON_NO_REGISTER,
          "the HSA runtime did not register with rocprofiler-register"};
}

// The reason for using the HSA backend.
BackendReason WhyHsa() {
  const SdkBackend& sdk = g_collector.sdk;
  if (g_process.config.backend < ROCATTACH_BACKEND_SDK) return *g_hsa.live_reason;
  if (sdk.reason() != ROCATTACH_BACKEND_REASON_NONE) return {sdk.reason(), sdk.text()};
  return WhyNotAsked();
}

}  // namespace

int Start(const rocattach_collector_config* config) {
  Process& p = g_process;
  if (config == nullptr) return EINVAL;
  if (p.guard.armed() && !p.guard.Ours()) StartAnewInChild();
  TinyLockHolder hold(p.start_lock);
  uint32_t phase = LoadAcquire(&p.phase);
  if (phase == kPhaseNone) {
    Geometry geometry;
    if (p.guard.armed() || !ComputeGeometry(*config, &geometry)) return EINVAL;
    int error = SetUp(*config);
    if (error != 0) return error;
    // SetUp() may have refused.
    if (LoadAcquire(&p.phase) == kPhaseNone) {
      StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseLoaded));
    }
  } else if (phase == kPhaseLoaded && WaitsForSdk() &&
             config->backend < ROCATTACH_BACKEND_SDK) {
    // The SDK has refused, or could not be reached: enter through the tables instead.
    rocattach_control* control = p.memory.control();
    p.config = *config;
    StoreRelaxed(&control->window_id, config->window_id);
    StoreRelaxed(&control->recording_flags, config->recording_flags);
    return Enter();
  } else if (phase == kPhaseLoaded || phase == kPhaseUnloaded) {
    if (!g_hsa.live.installed()) {
      int error = g_hsa.reentry.Install();
      if (error != 0) return error;
    }
  }
  return p.memory.valid() ? 0 : EINVAL;
}

// Loaded through HSA_TOOLS_LIB: the live table was not found, or the SDK was requested
// and did not load us.
bool Load(ApiTableRoot* root) {
  Process& p = g_process;
  if (!p.guard.Ours()) return true;
  bool armed = false;
  const bool called = OnOwnStack([&] {
    TinyLockHolder hold(p.start_lock);
    p.environment.Restore();
    armed = !g_collector.sdk.in_force() && g_hsa.Arm(root, WhyHsa());
  });
  if (!called) {
    p.environment.Restore();
    if (!g_collector.sdk.in_force()) g_hsa.RefuseWithoutStack();
  }
  if (armed) BeginService();
  return true;
}

void Unload() {
  ErrnoKeeper keep_errno;
  Process& p = g_process;
  if (!p.guard.Ours() || LoadAcquire(&p.phase) != kPhaseArmed ||
      g_hsa.live.installed()) {
    return;
  }
  if (g_collector.sdk.in_force()) {
    g_collector.sdk.RuntimeGone();
    StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseUnloaded));
    p.rings.UpdateTotals();
    p.memory.SetState(ROCATTACH_STATE_UNLOADED);
    return;
  }
  PauseLateSdk();
  g_hsa.Unload();
}

void End() {
  ErrnoKeeper keep_errno;
  Process& p = g_process;
  Collector& c = g_collector;
  if (!p.guard.Ours()) return;
  p.environment.Restore();
  const uint32_t phase = LoadAcquire(&p.phase);
  if (phase == kPhaseEnded || phase == kPhaseRefused) return;
  // Do this while callbacks still arrive: stopping the SDK delivers what is in flight.
  const bool by_sdk = c.sdk.in_force();
  if (by_sdk) c.sdk.End();
  c.late.End();
  c.hsa.End(/*in_use=*/phase == kPhaseArmed && !by_sdk);
  p.rings.UpdateTotals();
  StoreRelaxed(&p.memory.control()->ended_ns, BootNs());
  p.memory.SetState(ROCATTACH_STATE_ENDED);
}

// Executes plans with the HSA backend: dispatches and copies, and, through an SDK that
// is loaded for this, counters of whole GPUs and calls of other libraries.

namespace {

// Record kinds for which an SDK is loaded. Arguments are recorded with their calls.
constexpr uint32_t kLoadsSdk =
    ROCATTACH_PLAN_RECORD_SAMPLES | ROCATTACH_PLAN_RECORD_API;
constexpr uint32_t kOfLateSdk = kLoadsSdk | ROCATTACH_PLAN_RECORD_ARGUMENTS;

PlanResult CheckKinds(const rocattach_plan& plan) {
  uint32_t known = ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COPIES |
                   ROCATTACH_PLAN_RECORD_MEMORY;
  if (plan.late_sdk[0] != '\0') known |= kOfLateSdk;
  constexpr uint32_t kCounted =
      ROCATTACH_PLAN_RECORD_COUNTERS | ROCATTACH_PLAN_RECORD_SAMPLES;
  const uint32_t unknown = plan.record_kinds & ~known;
  if (unknown == 0) return PlanResult();
  return PlanResult::Error(
      ROCATTACH_PLAN_ERROR_UNSUPPORTED, 0, "the HSA tools backend cannot record %s: %s",
      (unknown & kCounted) != 0                        ? "hardware counters"
      : (unknown & ROCATTACH_PLAN_RECORD_SCRATCH) != 0 ? "scratch memory"
                                                       : "API calls",
      g_process.memory.control()->backend_text);
}

}  // namespace

void ApplyHsaPlan(RingHandle* ring) {
  Process& p = g_process;
  Collector& c = g_collector;
  TinyLockHolder hold(c.plan_lock);
  if (LoadRelaxed(&p.self_stopped) != 0) {
    // Recording resumes with the same plan, so it must be applied again then.
    if (c.late.Pause()) p.plans.Reconsider();
    return;
  }
  if (!p.plans.Pending() || LoadAcquire(&p.phase) != kPhaseArmed ||
      c.late.Awaited(LoadAcquire(&p.memory.plan()->generation))) {
    return;
  }
  c.late.Finish(ring);
  c.hsa.recording.SetPlanKinds(0);
  p.plans.Activate(nullptr);
  PlanResult result;
  PlanState* state = p.plans.Prepare(&result);
  // The plan is being rewritten: the writer wakes us afterwards.
  if (state == nullptr && result.ok()) return;
  if (state != nullptr) result = CheckKinds(state->plan);
  const uint32_t kinds = state != nullptr ? state->plan.record_kinds : 0;
  if (result.ok() && (kinds & kLoadsSdk) != 0 && !c.late.Start(state, &result)) {
    return;
  }
  if (result.ok() && kinds != 0) {
    p.plans.Activate(state);
    c.hsa.recording.SetPlanKinds(kinds);
  }
  p.plans.Answer(p.plans.pending_generation(), result);
}

// The rounds of the collector's thread: it publishes what finishes while no doorbell is
// rung, retries deferred doorbells, executes plans, updates the totals, and restores
// the environment if the runtime never calls.

namespace {

constexpr uint32_t kBusyTickMsec = 4;     // something is in flight
constexpr uint32_t kQuietTickMsec = 200;  // recording, but nothing happens
// Longest sleep that operations put in flight meanwhile need not interrupt.
constexpr uint64_t kLongestShortSleepNs = 20'000'000;
constexpr uint32_t kLoadTickMsec = 50;
// A program may open the runtime at any time; the thread that does so wakes us.
constexpr uint32_t kOpenTickMsec = 1000;
// A runtime that has not called OnLoad by then never will.
constexpr uint64_t kLoadTimeoutNs = 5'000'000'000;

// Maximum time to sleep; 0: no limit.
struct Timeout {
  uint64_t msec = 0;
  uint64_t ns = 0;

  uint64_t Shorter() const {
    return ns == 0 || (msec != 0 && msec * 1'000'000 < ns) ? msec * 1'000'000 : ns;
  }
};

// Runs one round while the runtime is open, or has been. Returns false if it
// must be repeated at once.
bool Round(ServiceWatch* watch, Timeout* timeout) {
  Process& p = g_process;
  Collector& c = g_collector;
  rocattach_control* control = p.memory.control();
  RingHandle ring = p.rings.Mine();
  bool busy = false;
  if (c.sdk.in_force()) {
    timeout->ns = c.sdk.Tick(&ring);
  } else {
    ApplyHsaPlan(&ring);
    timeout->ns = c.late.Tick(&ring);
  }
  bool recording = LoadRelaxed(&control->recording) != 0 ||
                   c.hsa.recording.plan_kinds() != 0 || c.sdk.busy();
  if (!c.sdk.in_force()) busy = c.hsa.Tick(&ring);
  const bool was_stopped = LoadRelaxed(&p.self_stopped) != 0;
  watch->Check(&p, recording);
  // The service is back, perhaps with a plan.
  if (was_stopped && LoadRelaxed(&p.self_stopped) == 0) return false;
  p.rings.UpdateTotals();
  recording = recording && LoadRelaxed(&p.self_stopped) == 0;
  timeout->msec = busy ? kBusyTickMsec : (recording ? kQuietTickMsec : 0);
  if (uint32_t left = c.hsa.reentry.Expire(); left != 0) timeout->msec = left;
  return true;
}

}  // namespace

void RunWorker() {
  Process& p = g_process;
  ServiceWatch watch;
  const uint64_t give_up = BootNs() + kLoadTimeoutNs;
  for (;;) {
    const uint32_t phase = LoadAcquire(&p.phase);
    const uint32_t command = LoadAcquire(&p.memory.control()->command);
    Timeout timeout;
    if (phase == kPhaseEnded || phase == kPhaseRefused) break;
    if (phase == kPhaseNone || phase == kPhaseLoaded) {
      if (BootNs() > give_up && !g_hsa.live.installed()) {
        // Another thread may be inside OnLoad at this moment, which restores the
        // environment as well: harmless.
        p.environment.Restore();
        break;
      }
      timeout.msec = BootNs() > give_up ? kOpenTickMsec : kLoadTickMsec;
    } else if (!Round(&watch, &timeout)) {
      continue;
    }
    const uint64_t sleep_ns = timeout.Shorter();
    const bool long_sleep = sleep_ns == 0 || sleep_ns > kLongestShortSleepNs;
    p.worker.Sleep(command, sleep_ns, long_sleep);
  }
}

}  // namespace rocattach::collector
