#include "userspace/collector/hsa/live_entry.h"

#include "userspace/collector/collector.h"

namespace rocattach::collector {

bool LiveEntry::TableIsTheRuntimes() const {
  constexpr CoreSlot kSlots[] = {kCoreQueueCreate, kCoreSignalStoreRelaxed,
                                 kCoreShutDown};
  for (CoreSlot slot : kSlots) {
    if (!tables_.runtime.Contains(tables_.root.core->slots[slot])) return false;
  }
  return true;
}

const char* LiveEntry::Install(const void* window) {
  Collector& c = g_collector;
  LiveTables found;
  const char* why = FindLiveTables(window, &found);
  if (why != nullptr) return why;
  if (known_ && found.root.core != tables_.root.core) {
    return "this process was forked from one that uses another copy of the runtime";
  }
  tables_ = found;
  // In a child the table came with the parent's memory: with our functions, or with
  // those of a tool that calls ours. What they call in turn is known already.
  if (!known_ || TableIsTheRuntimes()) {
    if (!c.hsa.Load(&tables_.root, tables_.slots)) {
      return "the runtime's API table has a null entry";
    }
    c.amd_slots = tables_.slots;
    c.core_table = tables_.root.core;
    c.LookForOwnQueues(tables_.root.core);
    Restore();
  }
  c.tracker.set_times_are_ours(c.queues_are_the_runtimes);
  known_ = installed_ = true;
  StoreRelaxed(&c.memory.control()->entry,
               static_cast<uint32_t>(ROCATTACH_ENTRY_PATH_LIVE_TABLE));
  return nullptr;
}

void LiveEntry::Restore() {
  InstallHooks(&tables_.root, tables_.slots);
  HookRuntimeInit();
}

void LiveEntry::ArmIfOpen() {
  Collector& c = g_collector;
  const uint32_t phase = LoadAcquire(&c.phase);
  if (!installed_ || (phase != kPhaseLoaded && phase != kPhaseUnloaded)) return;
  if (ArmByLiveTable(&tables_.root)) c.BeginService();
}

hsa_status_t LiveEntry::Init() {
  Collector& c = g_collector;
  SleepingLockHolder life(life_lock_);
  const hsa_status_t status = c.hsa.init();
  if (life.nested()) return status;
  ErrnoKeeper keep_errno;
  if (status == HSA_STATUS_SUCCESS) {
    ArmIfOpen();
  } else {
    c.NoteFailedInit(status);
  }
  return status;
}

hsa_status_t LiveEntry::ShutDown() {
  Collector& c = g_collector;
  SleepingLockHolder life(life_lock_);
  if (life.nested()) return c.hsa.shut_down();
  const uint32_t phase = LoadAcquire(&c.phase);
  if (phase == kPhaseArmed) PrepareForShutDown();
  const hsa_status_t status = c.hsa.shut_down();
  ErrnoKeeper keep_errno;
  const bool last = status == HSA_STATUS_SUCCESS && TableIsTheRuntimes();
  if (phase == kPhaseArmed) {
    FinishShutDown(last);
  } else if (last && phase != kPhaseEnded) {
    Restore();
  }
  return status;
}

}  // namespace rocattach::collector
