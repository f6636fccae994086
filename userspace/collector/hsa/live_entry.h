// Entry by the live API table: our functions are in the runtime's tables before
// hsa_init runs, and again after each shut-down.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_

#include <hsa/hsa.h>

#include "userspace/collector/common/sleeping_lock.h"
#include "userspace/collector/hsa/live_table.h"

namespace rocattach::collector {

// What is stored into the table before hsa_init runs lies below every other tool:
// rocprofiler-sdk and the tools of HSA_TOOLS_LIB are called inside hsa_init, copy the
// table with our functions in it as "the runtime's", and put theirs on top. So they
// need not be there, nor be missing, and nothing is left in the environment.
//
// The runtime is not open yet when we store. hsa_init and hsa_shut_down pass through
// here, and the rest of arming, which needs an open runtime, follows hsa_init; or the
// first use of the runtime inside of it, which a tool may make.
//
// After the last hsa_shut_down the runtime makes its table anew. A tool that is not
// registered does not learn which one is the last, so each is treated as if it were:
// 1. What has finished is published. The worker, which reads queues, is kept out.
// 2. The runtime shuts down, or only counts.
// 3. If its table has lost our functions it was the last one: queues are forgotten
//    without another look, and our functions are stored again.
class LiveEntry {
 public:
  // At the window: finds the tables and stores our functions. nullptr, or why not, with
  // nothing changed; the latter is known for a process that was forked from one with
  // our functions in its tables as well.
  const char* Install(const void* window);
  bool installed() const { return installed_; }

  // The hooks' substance.
  hsa_status_t Init();
  hsa_status_t ShutDown();

  // Arms the collector, if it waits for that and the runtime is open.
  void ArmIfOpen();
  // Stores our functions again, into tables that the runtime has made anew.
  void Restore();

  // What a forked child keeps: the tables are part of its memory.
  void KeepInChild(const LiveEntry& parent) {
    tables_ = parent.tables_;
    known_ = parent.known_;
  }

 private:
  // False if the table has functions in it that are not the runtime's.
  bool TableIsTheRuntimes() const;

  LiveTables tables_ = {};
  bool known_ = false;      // the tables have been found, by us or before a fork
  bool installed_ = false;  // our functions are, or were, in them
  // One thread inside the runtime's hsa_init or hsa_shut_down, as the runtime itself
  // has it.
  SleepingLock life_lock_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_LIVE_ENTRY_H_
