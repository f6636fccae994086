// Entry through the live API table: our functions are in the runtime's tables before
// hsa_init runs, and again after each shut-down; or they get there in a late attach.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_

#include <hsa/hsa.h>

#include "userspace/collector/common/process.h"
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
  // attach the first one arms it, and others that come meanwhile are not recorded.
  bool IsReady() {
    if (Likely(g_process.Live())) return true;
    return late_ && TryArm();
  }

  // Before and after the runtime's hsa_init and hsa_shut_down. False if the thread is
  // inside of one of them already: then there is no Leave.
  bool Enter() { return life_lock_.Lock(); }
  void LeaveInit(hsa_status_t status);
  bool EnterShutDown();
  void LeaveShutDown(hsa_status_t status);

  // Arms the collector, if it waits for that and the runtime is open.
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
  // shut down. In a late attach our functions are above those of a tool that was there,
  // and gone when it puts the tables back as they were before it came. Stores them again
  // if the table has had the runtime's own since the call before; what was submitted
  // meanwhile is found in the queues.
  void StoreAgain();

  // What a forked child keeps: the tables are part of its memory.
  void KeepInChild(const LiveEntry& parent) {
    tables_ = parent.tables_;
    known_ = parent.known_;
  }

 private:
  // Arms the collector, unless another thread is doing so. True if it is armed.
  bool TryArm();
  static bool RuntimeIsOpen();
  // False if the table contains functions that are not the runtime's.
  bool TableIsTheRuntimes() const;
  // The same for the functions that reserve packets, where ours count as the runtime's.
  static bool IndicesAreTheRuntimes(const LiveTables& tables);

  LiveTables tables_ = {};
  bool known_ = false;      // the tables have been found, by us or before a fork
  bool installed_ = false;  // our functions are, or were, in them
  bool late_ = false;
  uint32_t arming_ = 0;  // 1: a thread is inside TryArm()
  // One thread inside the runtime's hsa_init or hsa_shut_down, as the runtime itself
  // has it.
  SleepingLock life_lock_;
  uint32_t phase_before_ = 0;  // with that lock, during hsa_shut_down
  bool taken_out_ = false;     // as StoreAgain() saw it last
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
