// From a runtime that is open to a collector that records.
#include "userspace/collector/collector.h"
#include "userspace/collector/hsa/other_tool.h"

namespace rocattach::collector {
namespace {

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

void PublishTableSizes(const ApiTableRoot* root) {
  rocattach_control* control = g_collector.memory.control();
  if (root == nullptr || root->version.minor_id < sizeof(ApiTableRoot)) return;
  if (root->core != nullptr) control->core_table_bytes = root->core->version.minor_id;
  if (root->amd_ext != nullptr) {
    control->amd_table_bytes = root->amd_ext->version.minor_id;
  }
}

// Reads the tables that OnLoad was given; why that failed, or nullptr. Touches nothing.
const char* LookAtTables(ApiTableRoot* root) {
  Collector& c = g_collector;
  const char* why = CheckTables(root, &c.amd_slots);
  PublishTableSizes(root);
  if (root == nullptr || why != nullptr) return why;
  UnhookInit(root->core);
  if (HooksInPlace(root)) return nullptr;
  if (!c.hsa.Load(root, c.amd_slots)) return "the runtime's API table has a null entry";
  c.LookForOwnQueues(root->core);
  c.tracker.set_times_are_ours(c.queues_are_the_runtimes);
  return nullptr;
}

// Asks the open runtime for what records refer to.
const char* LookAtRuntime(rocattach_collector_reason* reason) {
  Collector& c = g_collector;
  rocattach_control* control = c.memory.control();
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

void Refuse(rocattach_collector_reason reason, const char* why) {
  Collector& c = g_collector;
  StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseRefused));
  c.memory.Refuse(reason, why);
}

// With the start lock: from here on hooks find everything that they need.
void BeginRecording(rocattach_entry_path entry, ApiTableRoot* root) {
  Collector& c = g_collector;
  c.core_table = root->core;
  c.tracker.clocks().Init(&c.hsa);
  c.executables.Init(&c.hsa, &c.agents, &c.dictionary, &c.kernels);
  c.intercept.Init(&c.capture, &c.hsa, c.amd_slots.intercept_overflow_asserts);
  if (LoadAcquire(&c.phase) == kPhaseLoaded) c.RegisterEnd();
  rocattach_control* control = c.memory.control();
  StoreRelaxed(&control->entry, static_cast<uint32_t>(entry));
  NameOtherTool(root->core, control->other_tool, sizeof(control->other_tool));
  StoreRelaxed(&control->capture_mode, c.UseIntercept() ? 2u : 1u);
  StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseArmed));
  if (entry == ROCATTACH_ENTRY_PATH_TOOLS_LIB && !HooksInPlace(root)) {
    InstallHooks(root, c.amd_slots);
  }
  StoreRelaxed(&control->armed_ns, BootNs());
  StoreRelaxed(&control->recording_acked, LoadRelaxed(&control->recording));
  PublishHsaTools();
  c.memory.SetState(ROCATTACH_STATE_ARMED);
}

}  // namespace

// We are here by HSA_TOOLS_LIB: the live table was not found, or the SDK was asked for
// and did not take us.
bool Load(ApiTableRoot* root, uint64_t) {
  Collector& c = g_collector;
  if (!c.guard.Ours()) return true;
  {
    TinyLockHolder hold(c.start_lock);
    c.environment.Restore();
    const uint32_t phase = LoadAcquire(&c.phase);
    if (c.sdk.in_force() || c.live.installed()) return true;
    if (phase != kPhaseLoaded && phase != kPhaseUnloaded) return true;
    rocattach_collector_reason reason = ROCATTACH_REASON_UNKNOWN_TABLE;
    const char* why = LookAtTables(root);
    if (why == nullptr) why = LookAtRuntime(&reason);
    if (why != nullptr) {
      Refuse(reason, why);
      return true;
    }
    BeginRecording(ROCATTACH_ENTRY_PATH_TOOLS_LIB, root);
  }
  c.BeginService();
  return true;
}

bool ArmByLiveTable(ApiTableRoot* root) {
  Collector& c = g_collector;
  TinyLockHolder hold(c.start_lock);
  const uint32_t phase = LoadAcquire(&c.phase);
  if (phase != kPhaseLoaded && phase != kPhaseUnloaded) return false;
  uint16_t major = 0;
  // A program that calls other functions first is told so by the runtime.
  if (c.hsa.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) !=
      HSA_STATUS_SUCCESS) {
    return false;
  }
  PublishTableSizes(root);
  rocattach_collector_reason reason;
  const char* why = LookAtRuntime(&reason);
  if (why != nullptr) {
    Refuse(reason, why);
    return false;
  }
  BeginRecording(ROCATTACH_ENTRY_PATH_LIVE_TABLE, root);
  return true;
}

void Collector::BeginService() {
  WaitForService();
  TakeHsaPlan(this, nullptr);
  worker.Wake();
}

void Collector::LookForOwnQueues(const ApiTable* core) {
  ElfObject runtime;
  // Tables are the runtime's static data. Where nobody knows whose they are (in tests)
  // there is no reason for doubt.
  const bool known = ElfObject::Find(core, &runtime);
  const auto* create = reinterpret_cast<const void*>(hsa.queue_create);
  queues_are_the_runtimes = !known || runtime.Contains(create);
}

}  // namespace rocattach::collector
