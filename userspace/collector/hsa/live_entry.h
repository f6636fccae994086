// Entry through the live API table: our functions are in the runtime's tables before
// hsa_init runs, and again after each shut-down; or they get there in a late attach.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_

#include <hsa/hsa.h>

#include "userspace/collector/common/process.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/common/sleeping_lock.h"
#include "userspace/collector/hsa/live_table.h"

namespace rocattach::collector {

// Functions stored into the table before hsa_init runs are below all other tools:
// rocprofiler-sdk and the tools of HSA_TOOLS_LIB are called inside hsa_init, copy the
// table with our functions as "the runtime's", and put theirs on top. So such tools may
// be present or not, and nothing is left in the environment.
//
// The runtime is not open yet when we store. hsa_init and hsa_shut_down call us, and
// the rest of arming, which needs an open runtime, follows hsa_init, or the first use
// of the runtime inside it, by a tool.
//
// In a late attach the runtime is open already, but the thread on which we are started
// may be anywhere. So the rest of arming is left to the next call of one of our
// functions, where calling the runtime is safe.
//
// After the last hsa_shut_down the runtime rebuilds its table. A tool that is not
// registered is not told which one is the last, so each is treated as if it were:
// 1. What has finished is published. The worker, which reads queues, is kept out.
// 2. The runtime shuts down, or only decrements its count.
// 3. If its table has lost our functions, or it is closed, it was the last one: queues are
//    forgotten without reading them, and our functions are stored again.
//
// In a late attach our functions are above those of a tool that was there, and gone when
// it puts the tables back as they were before it came. Then calls pass without us.
// 1. A call that must not pass goes below us: nothing that the application may destroy is
//    read any more (HsaBackend::LoseTrack()).
// 2. Some milliseconds later our functions are stored again, each where the runtime's own
//    is, or the one that ours calls.
// 3. Kernels are read again, as at the attach, and a queue is tracked again when the
//    application comes back with it.
class LiveEntry {
 public:
  // At the window: finds the tables and stores our functions. nullptr, or the reason
  // why not, with nothing changed. Also works in a process that was forked from one
  // with our functions in its tables.
  // `late`: the runtime may have been opened long ago, and another tool may be between
  // us and it.
  const char* Install(const void* window, bool late);
  bool installed() const { return installed_; }
  bool late() const { return late_; }

  // For hooks that every dispatch passes: true if the collector is armed. In a late
  // attach the first one arms it, and others that come meanwhile wait for it: what they
  // submit would pass unrecorded.
  bool IsReady() {
    if (Likely(g_process.Live()) && Likely(!KernelsAreLost())) return true;
    return late_ && TryArm();
  }

  // A thread did not wait any longer for another one, which still arms the collector.
  bool IsBeingArmed() const {
    const uint32_t phase = LoadAcquire(&g_process.phase);
    return LoadRelaxed(&armer_) != 0 && g_process.guard.Ours() &&
           (phase == kPhaseLoaded || phase == kPhaseUnloaded);
  }

  // Before and after the runtime's hsa_init and hsa_shut_down. False if the thread is
  // inside of one of them already: then there is no Leave.
  bool Enter() { return life_lock_.Lock(); }
  void LeaveInit(hsa_status_t status);
  bool EnterShutDown();
  void LeaveShutDown(hsa_status_t status);

  // Arms the collector, if it waits for that and the runtime is open. In a late attach, if
  // another thread is doing so, waits for it, but not without a limit: it may need a lock
  // that this one has.
  void Arm() {
    if (late_) {
      (void)IsReady();
    } else {
      ArmIfOpen();
    }
  }
  // The same, without a limit.
  void ArmIfOpen();
  // The same in a late attach only.
  void ArmIfLate() {
    if (late_) ArmIfOpen();
  }
  // Makes us one of the runtime's users for the rest of the process, so that it never
  // shuts down: rocprofiler-sdk of several releases ends a process whose runtime starts
  // again. False if the runtime is not open.
  bool KeepOpen();
  // Stores our functions again, into tables that the runtime has rebuilt.
  void Restore();

  // For our thread, now and then, while the collector is armed and the runtime cannot be
  // shut down through us. Stores our functions again if they were gone at the call before
  // as well.
  void StoreAgain(RingHandle* ring);
  // Calls that must not pass without us may do so, or may have done so since StoreAgain()
  // has looked: what the application may destroy must not be read.
  bool TakenOut() const {
    return late_ && installed_ && (LoadRelaxed(&taken_out_) != 0 || AnyIsBelowUs());
  }
  // Another tool's function is where queues are destroyed. It may be above ours, or have
  // the runtime's from before: then queues go unseen.
  bool DestroyIsForeign() const {
    return late_ && LoadRelaxed(&destroy_is_foreign_) != 0;
  }
  // Where it is worth while to look again soon.
  bool StoresSoon() const { return TakenOut() && !named_; }
  // Whether a function in the tables is the runtime's own, or one that ours call. All
  // others are ours, or of a tool above us, whose functions call ours.
  bool IsBelowUs(const void* function) const;
  static bool RuntimeIsOpen();

  // Kernels may have been loaded and destroyed without our knowledge.
  void LoseKernels() { __atomic_fetch_add(&kernels_lost_, 1u, __ATOMIC_RELEASE); }
  // How often that was so, and for which of these times they have been read again.
  uint32_t kernels_lost() const { return LoadAcquire(&kernels_lost_); }
  void KernelsRead(uint32_t lost) { StoreRelease(&kernels_read_, lost); }
  bool KernelsAreLost() const {
    return LoadRelaxed(&kernels_lost_) != LoadRelaxed(&kernels_read_);
  }

  // What a forked child keeps: the tables are part of its memory.
  void KeepInChild(const LiveEntry& parent) {
    tables_ = parent.tables_;
    known_ = parent.known_;
  }

 private:
  // Arms the collector, or waits for the thread that does so. True if it is armed.
  bool TryArm();
  // False if thread `armer` has been arming for too long.
  bool WaitForArmer(uint32_t armer);
  // Reads the functions that ours call. nullptr, or the reason why not.
  const char* LoadFunctions();
  // Whether a function is below us where a call that passes without us does harm.
  bool AnyIsBelowUs() const;
  // Sets when they are to be stored at the earliest.
  void WaitBeforeStore(uint64_t now_ns);
  // Stores ours in the place of those. nullptr, or the reason why not.
  const char* StoreNow();
  void NameFailure(const char* why);
  // False if the table contains functions that are not the runtime's.
  bool TableIsTheRuntimes() const;
  // The same for the functions that reserve packets, where ours count as the runtime's.
  static bool IndicesAreTheRuntimes(const LiveTables& tables);

  static constexpr uint32_t kWatched = 8;

  LiveTables tables_ = {};
  bool known_ = false;      // the tables have been found, by us or before a fork
  bool installed_ = false;  // our functions are, or were, in them
  bool late_ = false;
  uint32_t armer_ = 0;      // tid of the thread that is inside TryArm()
  uint64_t arming_ns_ = 0;  // since when
  // One thread inside the runtime's hsa_init or hsa_shut_down, as the runtime itself
  // has it.
  SleepingLock life_lock_;
  uint32_t phase_before_ = 0;  // with that lock, during hsa_shut_down
  // What AnyIsBelowUs() has found in the entries that it looks at.
  mutable const void* not_below_[kWatched] = {};
  mutable uint32_t destroy_is_foreign_ = 0;
  uint32_t taken_out_ = 0;  // 1: StoreAgain() has found them gone
  bool named_ = false;      // why they cannot be stored has been said
  uint64_t stored_ns_ = 0;  // when StoreAgain() has stored them last
  uint64_t wait_ns_ = 0, store_ns_ = 0;
  uint32_t kernels_lost_ = 0, kernels_read_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
