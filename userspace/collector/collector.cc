#include "userspace/collector/collector.h"

#include <sys/auxv.h>

#include <new>

#include "userspace/collector/common/own_stack.h"

namespace rocattach::collector {

constinit Collector g_collector;

namespace {

// Waits until the service reads our memory, then executes its plan, if it has one.
void BeginService() {
  // The thread of a late attach is in the middle of the program's work.
  if (!g_process.late()) g_process.WaitForService();
  // Without memory for a stack our thread does it.
  (void)OnOwnStack([] { TakeHsaPlan(nullptr); });
  g_process.worker.Wake();
}

// The SDK that a session has loaded uses the runtime. Its plan resumes when the runtime
// is back.
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
    // A runtime that is open does not look for tools any more.
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
    // The service evaluates the state in memory. Nothing else has changed.
    StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseRefused));
  } else {
    p.memory.Discard();
  }
  return error;
}

// Another program was to have rocprofiler-sdk attach us.
bool WaitsForSdk() {
  return g_process.config.backend == ROCATTACH_BACKEND_SDK_ATTACH &&
         !g_collector.sdk.in_force();
}

// Why rocprofiler-sdk was requested and has not called us. In OnLoad, when the runtime
// has registered already, if it does that.
BackendReason WhyNotAsked() {
  if (FindRegisterFunction("rocprofiler_register_library_api_table") == nullptr) {
    return {ROCATTACH_BACKEND_REASON_NO_REGISTER,
            "the process has no rocprofiler-register"};
  }
  // A version that does not say whether it has its tools.
  if (FindSdkFunction("rocprofiler_set_api_table") != nullptr) return kSdkInUse;
  // As for any variable that could bring foreign code.
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

// Why the HSA backend is used.
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
    // It may have refused.
    if (LoadAcquire(&p.phase) == kPhaseNone) {
      StoreRelease(&p.phase, static_cast<uint32_t>(kPhaseLoaded));
    }
  } else if (phase == kPhaseLoaded && WaitsForSdk() &&
             config->backend < ROCATTACH_BACKEND_SDK) {
    // It has refused, or could not be asked: the tables are the other way in.
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
  // While callbacks still arrive: stopping delivers what is in flight.
  const bool by_sdk = c.sdk.in_force();
  if (by_sdk) c.sdk.End();
  c.late.End();
  c.hsa.End(/*in_use=*/phase == kPhaseArmed && !by_sdk);
  p.rings.UpdateTotals();
  StoreRelaxed(&p.memory.control()->ended_ns, BootNs());
  p.memory.SetState(ROCATTACH_STATE_ENDED);
}

}  // namespace rocattach::collector
