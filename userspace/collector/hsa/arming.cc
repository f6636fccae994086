// Arms the collector once the runtime is open.
#include <stdio.h>

#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/hooks.h"
#include "userspace/collector/hsa/other_tool.h"

namespace rocattach::collector {
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

// Reads the tables that were passed to OnLoad; the reason of a failure, or nullptr.
// Does not change them.
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

// Names what this runtime has and we do not understand, as far as there is room.
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
  // Tables are the runtime's static data. If their owner is unknown (in tests), they
  // are assumed to be.
  const bool known = ElfObject::Find(core, &runtime);
  const auto* create = reinterpret_cast<const void*>(functions.queue_create);
  queues_are_the_runtimes = !known || runtime.Contains(create);
}

}  // namespace rocattach::collector
