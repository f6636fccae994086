#include "userspace/collector/hsa/live_entry.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "userspace/collector/common/own_stack.h"
#include "userspace/collector/hsa/backend.h"
#include "userspace/collector/hsa/elf_object.h"
#include "userspace/collector/hsa/hooks.h"

namespace rocattach::collector {

// A tool that replaces these functions (rocprofiler-sdk with inline interposition)
// keeps indices of its own: the packets that it receives are at other indices in the
// queue. A forked child may have our own functions there.
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
    if (const char* unread = LoadFunctions(); unread != nullptr) return unread;
    h.UseTables(tables_);
    h.core_table = tables_.root.core;
    h.FindQueueOwner(tables_.root.core);
    Restore();
  }
  h.tracker.set_times_are_ours(h.queues_are_the_runtimes);
  // A tool below us would pass our signals to the runtime's
  // functions, which do not know them.
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

// Once all functions are known, only the runtime's own replace them: any others that
// are in the table may be ours, or call ours.
const char* LiveEntry::LoadFunctions() {
  HsaFunctions now = {};
  if (!now.Load(&tables_.root, tables_.slots)) {
    return "the runtime's API table has a null entry";
  }
  if (known_) {
    g_hsa.functions.CopyRuntimeFunctions(now, tables_.runtime);
  } else {
    g_hsa.functions = now;
  }
  return nullptr;
}

// A function that ours call cannot call ours in turn: the two would already have
// called each other forever.
bool LiveEntry::IsBelowUs(const void* function) const {
  return tables_.runtime.Contains(function) || g_hsa.functions.Has(function);
}

bool LiveEntry::AnyIsBelowUs() const {
  constexpr CoreSlot kSlots[] = {kCoreShutDown,           kCoreQueueCreate,
                                 kCoreQueueDestroy,       kCoreSignalDestroy,
                                 kCoreSignalStoreRelaxed, kCoreSignalStoreScrelease,
                                 kCoreExecutableDestroy,  kCoreExecutableFreeze};
  static_assert(sizeof(kSlots) / sizeof(*kSlots) == kWatched);
  for (uint32_t i = 0; i < kWatched; ++i) {
    const void* there = LoadAcquire(&tables_.root.core->slots[kSlots[i]]);
    if (Likely(there == LoadRelaxed(&not_below_[i]))) continue;
    if (IsBelowUs(there)) return true;
    if (kSlots[i] == kCoreQueueDestroy) {
      StoreRelaxed(&destroy_is_foreign_, IsOurQueueDestroy(there) ? 0u : 1u);
    }
    StoreRelaxed(&not_below_[i], there);
  }
  return false;
}

void LiveEntry::StoreAgain(RingHandle* ring) {
  if (!late_ || !installed_) return;
  const bool out = AnyIsBelowUs();
  const bool was_out = LoadRelaxed(&bypassed_) != 0;
  if (!out && !was_out) return;
  StoreRelaxed(&bypassed_, 1u);
  const uint64_t now = BootNs();
  if (!was_out) {
    WaitBeforeStore(now);
  } else if (now < store_ns_ || (named_ && !IndicesAreTheRuntimes(tables_))) {
    return;
  }
  if (!g_hsa.LoseTrack(ring)) return;
  // The tool may just now be storing the runtime's functions, one after the other.
  if (!was_out) return;
  const char* why = out ? StoreNow() : nullptr;
  if (why != nullptr) return NameFailure(why);
  if (!g_hsa.RuntimeIsTheSame()) {
    g_hsa.CountLost(ring);
    g_hsa.ForgetLastRuntime(ring);
  }
  if (named_) {
    g_process.PublishBackend(ROCATTACH_BACKEND_HSA_TOOLS, g_hsa.live_reason->reason,
                             g_hsa.live_reason->text);
  }
  named_ = false;
  stored_ns_ = now;
  StoreRelaxed(&bypassed_, 0u);
}

// After each store the program's kernels are read again, which takes one of its threads
// milliseconds: store less often if a tool keeps putting the tables back.
void LiveEntry::WaitBeforeStore(uint64_t now_ns) {
  constexpr uint64_t kShortestNs = 4'000'000, kLongestNs = 256'000'000;
  constexpr uint64_t kQuietNs = 10'000'000'000;
  const bool again = stored_ns_ != 0 && now_ns - stored_ns_ < kQuietNs;
  wait_ns_ = !again                      ? kShortestNs
             : 2 * wait_ns_ < kLongestNs ? 2 * wait_ns_
                                         : kLongestNs;
  store_ns_ = now_ns + wait_ns_;
}

void LiveEntry::NameFailure(const char* why) {
  if (!named_) {
    g_process.PublishBackend(ROCATTACH_BACKEND_HSA_TOOLS, g_hsa.live_reason->reason,
                             why);
  }
  named_ = true;
}

const char* LiveEntry::StoreNow() {
  if (!IndicesAreTheRuntimes(tables_)) {
    return "nothing is recorded any more: another profiler has put the runtime's API "
           "table back, and gives out write indices itself";
  }
  if (LoadFunctions() != nullptr) {
    return "nothing is recorded any more: another tool has put the runtime's API table "
           "back, with a null entry";
  }
  Restore();
  return nullptr;
}

// Arming takes milliseconds, unless its thread gets no CPU. Other threads wait for at
// most this time after its start: it may need a lock that one of them holds.
constexpr uint64_t kLongestArmingNs = 500'000'000;

bool LiveEntry::WaitForArmer(uint32_t armer) {
  const uint64_t now = BootNs(), end = LoadRelaxed(&arming_ns_) + kLongestArmingNs;
  if (now >= end) return false;
  FutexWaitNs(&armer_, armer, end - now);
  return true;
}

bool LiveEntry::TryArm() {
  Process& p = g_process;
  ErrnoKeeper keep_errno;
  const auto me = static_cast<uint32_t>(syscall(SYS_gettid));
  for (;;) {
    // A signal handler that runs meanwhile may fork.
    if (!p.guard.Ours()) return false;
    const uint32_t phase = LoadAcquire(&p.phase);
    // Unloaded: the runtime may have been started again without our knowledge.
    if (phase != kPhaseLoaded && phase != kPhaseUnloaded && phase != kPhaseArmed) {
      return false;
    }
    if (p.Live() && !KernelsAreLost()) return true;
    uint32_t armer = 0;
    if (LoadRelaxed(&armer_) == 0) StoreRelaxed(&arming_ns_, BootNs());
    if (__atomic_compare_exchange_n(&armer_, &armer, me, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE)) {
      break;
    }
    // Arming calls the functions that were in the tables before: those of another tool
    // may call the runtime through the tables.
    if (armer == me || !WaitForArmer(armer)) return false;
  }
  ArmIfOpen();
  StoreRelease(&armer_, 0u);
  FutexWake(&armer_);
  return p.Live();
}

void LiveEntry::ArmIfOpen() {
  const uint32_t phase = LoadAcquire(&g_process.phase);
  if (phase == kPhaseArmed) return g_hsa.ReadLostKernels();
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
  // A runtime that does not rebuild its table reports that it is closed.
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
