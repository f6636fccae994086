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
// The runtime is not open yet when we store. hsa_init and hsa_shut_down call us. The
// rest of arming needs an open runtime, and follows hsa_init, or the first use of the
// runtime by a tool inside hsa_init.
//
// In a late attach the runtime is open already, but the thread on which we are started
// may be anywhere. So the rest of arming is left to the next call of one of our
// functions, where calling the runtime is safe.
//
// After the last hsa_shut_down the runtime rebuilds its table. A tool that is not
// registered cannot know which call is the last, so each is treated as if it were:
// 1. What has finished is published. The worker, which reads queues, is kept out.
// 2. The runtime shuts down, or only decrements its count.
// 3. If its table has lost our functions, or it is closed, it was the last one: queues are
//    forgotten without reading them, and our functions are stored again.
//
// In a late attach our functions are above those of a tool that was there before. They
// are gone when that tool puts the tables back as they were before it came.
// 1. Once calls that we must see can bypass us, nothing that the application may
//    destroy is read any more (HsaBackend::LoseTrack()).
// 2. Some milliseconds later our functions are stored again, each where the runtime's
//    own is, or the one that ours calls.
// 3. Kernels are read again, as at the attach, and a queue is tracked again when the
//    application uses it again.
class LiveEntry {
 public:
  // At the window: finds the tables and stores our functions. Returns
  // nullptr, or the reason why not, with nothing changed. Also works in a
  // process that was forked from one with our functions in its tables.
  // `late`: the runtime may have been opened long ago, and another tool
  // may be between us and it.
  const char* Install(const void* window, bool late);
  bool installed() const { return installed_; }
  bool late() const { return late_; }

  // For hooks that every dispatch passes: true if the collector is armed. In a late
  // attach the first hook arms it, and others called meanwhile wait for that: otherwise
  // what they submit would pass unrecorded.
  bool IsReady() {
    if (Likely(g_process.Live()) && Likely(!KernelsAreLost())) return true;
    return late_ && TryArm();
  }

  // True if another thread is still arming the collector and this one no longer waits.
  bool IsBeingArmed() const {
    const uint32_t phase = LoadAcquire(&g_process.phase);
    return LoadRelaxed(&armer_) != 0 && g_process.guard.Ours() &&
           (phase == kPhaseLoaded || phase == kPhaseUnloaded);
  }

  // Called before and after the runtime's hsa_init and hsa_shut_down. False if the
  // thread is inside one of them already: then there must be no Leave.
  bool Enter() { return life_lock_.Lock(); }
  void LeaveInit(hsa_status_t status);
  bool EnterShutDown();
  void LeaveShutDown(hsa_status_t status);

  // Arms the collector, if it is waiting for that and the runtime is open. In a late
  // attach, waits for another thread that is arming it, but only for a limited time:
  // that thread may need a lock that this one holds.
  void Arm() {
    if (late_) {
      (void)IsReady();
    } else {
      ArmIfOpen();
    }
  }
  // The same, without a time limit.
  void ArmIfOpen();
  // The same in a late attach only.
  void ArmIfLate() {
    if (late_) ArmIfOpen();
  }
  // Makes us one of the runtime's users for the rest of the process, so that it never
  // shuts down: several releases of rocprofiler-sdk end a process whose runtime starts
  // again. False if the runtime is not open.
  bool KeepOpen();
  // Stores our functions again, into tables that the runtime has rebuilt.
  void Restore();

  // For the worker, from time to time, while the collector is armed and the runtime
  // cannot be shut down through us. Stores our functions again if they were gone at
  // the previous call as well.
  void StoreAgain(RingHandle* ring);
  // True if calls that we must see may bypass us, or may have done so since the last
  // check by StoreAgain(): what the application may destroy must not be read then.
  bool MayBeBypassed() const {
    return late_ && installed_ && (LoadRelaxed(&bypassed_) != 0 || AnyIsBelowUs());
  }
  // True if hsa_queue_destroy is another tool's function. It may be above ours, or call
  // the runtime's directly: then we do not see which queues are destroyed.
  bool DestroyIsForeign() const {
    return late_ && LoadRelaxed(&destroy_is_foreign_) != 0;
  }
  // True if our functions are likely to be stored again soon.
  bool StoresSoon() const { return MayBeBypassed() && !named_; }
  // True if a function in the tables is the runtime's own, or one that ours call. All
  // others are ours, or those of a tool above us, which call ours.
  bool IsBelowUs(const void* function) const;
  static bool RuntimeIsOpen();

  // Kernels may have been loaded and destroyed without our knowledge.
  void LoseKernels() { __atomic_fetch_add(&kernels_lost_, 1u, __ATOMIC_RELEASE); }
  // Number of such losses, and the one up to which kernels have been read again.
  uint32_t kernels_lost() const { return LoadAcquire(&kernels_lost_); }
  void KernelsRead(uint32_t lost) { StoreRelease(&kernels_read_, lost); }
  bool KernelsAreLost() const {
    return LoadRelaxed(&kernels_lost_) != LoadRelaxed(&kernels_read_);
  }

  // Keeps what is still valid in a forked child: the tables are part of its memory.
  void KeepInChild(const LiveEntry& parent) {
    tables_ = parent.tables_;
    known_ = parent.known_;
  }

 private:
  // Arms the collector, or waits for the thread that does so. True if it is armed.
  bool TryArm();
  // False if thread `armer` has been arming for too long.
  bool WaitForArmer(uint32_t armer);
  // Reads the functions that ours call. Returns nullptr, or the reason for a failure.
  const char* LoadFunctions();
  // True if calls that we must see bypass us: a function in an entry is below us.
  bool AnyIsBelowUs() const;
  // Sets the earliest time at which our functions are stored again.
  void WaitBeforeStore(uint64_t now_ns);
  // Stores our functions in their place. Returns nullptr, or the reason for a failure.
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
  uint64_t arming_ns_ = 0;  // since when that thread has been arming
  // Held by the one thread inside the runtime's hsa_init or hsa_shut_down; the runtime
  // itself admits only one, too.
  SleepingLock life_lock_;
  uint32_t phase_before_ = 0;  // with that lock, during hsa_shut_down
  // Functions in the entries of AnyIsBelowUs() that it has found not to be below us.
  mutable const void* not_below_[kWatched] = {};
  mutable uint32_t destroy_is_foreign_ = 0;
  uint32_t bypassed_ = 0;   // 1: StoreAgain() has found our functions gone
  bool named_ = false;      // the reason why they cannot be stored is published
  uint64_t stored_ns_ = 0;  // when StoreAgain() last stored them
  uint64_t wait_ns_ = 0, store_ns_ = 0;
  uint32_t kernels_lost_ = 0, kernels_read_ = 0;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
