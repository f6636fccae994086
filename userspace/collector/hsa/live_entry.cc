#include "userspace/collector/hsa/live_entry.h"

#include "userspace/collector/common/own_stack.h"
#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/elf_object.h"
#include "userspace/collector/hsa/hooks.h"

namespace rocattach::collector {

// A tool that does so (rocprofiler-sdk with inline interposition) keeps indices of its
// own: the packets that it is given are not where the queue has them. A forked child may
// have our own functions there.
bool LiveEntry::IndicesAreTheRuntimes(const LiveTables& tables) {
  ElfObject ours;
  const bool have_ours =
      ElfObject::Find(reinterpret_cast<const void*>(&InstallOldQueueHooks), &ours);
  for (uint32_t slot = kCoreQueueStoreWriteIndexRelaxed;
       slot <= kCoreQueueAddWriteIndexScrelease; ++slot) {
    const void* function = tables.root.core->slots[slot];
    if (!tables.runtime.Contains(function) && !(have_ours && ours.Contains(function))) {
      return false;
    }
  }
  return true;
}

bool LiveEntry::TableIsTheRuntimes() const {
  constexpr CoreSlot kSlots[] = {kCoreQueueCreate, kCoreSignalStoreRelaxed,
                                 kCoreShutDown};
  for (CoreSlot slot : kSlots) {
    if (!tables_.runtime.Contains(tables_.root.core->slots[slot])) return false;
  }
  return true;
}

const char* LiveEntry::Install(const void* window, bool late) {
  HsaBackend& h = g_hsa;
  LiveTables found;
  const char* why = FindLiveTables(window, &found);
  if (why != nullptr) return why;
  if (known_ && found.root.core != tables_.root.core) {
    return "this process was forked from one that uses another copy of the runtime";
  }
  if (late && !IndicesAreTheRuntimes(found)) {
    return "another profiler gives out the write indices of this process's queues; "
           "attach before it starts, with rocattach-watch --auto";
  }
  tables_ = found;
  late_ = late;
  // A child inherits the table with the parent's memory: with our functions, or with
  // those of a tool that calls ours. The functions that they call in turn are already
  // known.
  if (!known_ || TableIsTheRuntimes()) {
    if (!h.functions.Load(&tables_.root, tables_.slots)) {
      return "the runtime's API table has a null entry";
    }
    h.UseTables(tables_);
    h.core_table = tables_.root.core;
    h.FindQueueOwner(tables_.root.core);
    Restore();
  }
  h.tracker.set_times_are_ours(h.queues_are_the_runtimes);
  // A tool below us would use them with the runtime's functions, which do not know
  // them.
  h.tracker.set_adds_signals(!late || h.queues_are_the_runtimes);
  known_ = installed_ = true;
  StoreRelaxed(&g_process.memory.control()->entry,
               static_cast<uint32_t>(late ? ROCATTACH_ENTRY_PATH_LATE
                                          : ROCATTACH_ENTRY_PATH_LIVE_TABLE));
  return nullptr;
}

void LiveEntry::Restore() {
  InstallHooks(&tables_.root, tables_.slots);
  if (late_) InstallOldQueueHooks(tables_.root.core);
  HookRuntimeInit();
}

void LiveEntry::StoreAgain() {
  if (!late_ || !installed_) return;
  if (!TableIsTheRuntimes()) {
    taken_out_ = false;
    return;
  }
  // 1. The tool is storing the runtime's functions, one after the other.
  // 2. We look, and see some of them; the others still call ours, through the tool's.
  // 3. If we stored ours above those, they would call themselves.
  // So all of them must have been there for some milliseconds.
  if (!taken_out_) {
    taken_out_ = true;
    return;
  }
  taken_out_ = false;
  if (!IndicesAreTheRuntimes(tables_)) return;
  HsaFunctions now = {};
  if (!now.Load(&tables_.root, tables_.slots)) return;
  g_hsa.functions = now;
  Restore();
}

bool LiveEntry::TryArm() {
  Process& p = g_process;
  if (!p.guard.Ours() || LoadAcquire(&p.phase) != kPhaseLoaded) return false;
  if (__atomic_exchange_n(&arming_, 1u, __ATOMIC_ACQUIRE) != 0) return false;
  ErrnoKeeper keep_errno;
  ArmIfOpen();
  StoreRelease(&arming_, 0u);
  return p.Live();
}

void LiveEntry::ArmIfOpen() {
  const uint32_t phase = LoadAcquire(&g_process.phase);
  if (!installed_ || (phase != kPhaseLoaded && phase != kPhaseUnloaded)) return;
  // The call that leads here may need much less stack than this.
  bool armed = false;
  if (!OnOwnStack([&] { armed = g_hsa.ArmByLiveTable(&tables_.root); })) {
    return g_hsa.RefuseWithoutStack();
  }
  if (armed) g_process.upcalls->hsa_armed();
}

void LiveEntry::LeaveInit(hsa_status_t status) {
  Process& p = g_process;
  ErrnoKeeper keep_errno;
  if (status == HSA_STATUS_SUCCESS) {
    ArmIfOpen();
  } else if (LoadAcquire(&p.phase) == kPhaseLoaded) {
    // The program has no GPU, and nothing to record.
    StoreRelaxed(&p.memory.control()->init_status, static_cast<uint32_t>(status));
  }
  life_lock_.Unlock();
}

bool LiveEntry::EnterShutDown() {
  if (!life_lock_.Lock()) return false;
  phase_before_ = LoadAcquire(&g_process.phase);
  if (phase_before_ == kPhaseArmed) g_hsa.PrepareForShutDown();
  return true;
}

void LiveEntry::LeaveShutDown(hsa_status_t status) {
  ErrnoKeeper keep_errno;
  // A runtime that does not rebuild its table says that it is closed.
  const bool last =
      status == HSA_STATUS_SUCCESS && (TableIsTheRuntimes() || !RuntimeIsOpen());
  if (phase_before_ == kPhaseArmed) {
    g_hsa.FinishShutDown(last);
  } else if (last && phase_before_ != kPhaseEnded) {
    Restore();
  }
  life_lock_.Unlock();
}

bool LiveEntry::RuntimeIsOpen() {
  uint16_t major = 0;
  return g_hsa.functions.system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major) ==
         HSA_STATUS_SUCCESS;
}

bool LiveEntry::KeepOpen() {
  SleepingLockHolder life(life_lock_);
  return RuntimeIsOpen() && g_hsa.functions.init() == HSA_STATUS_SUCCESS;
}

}  // namespace rocattach::collector
