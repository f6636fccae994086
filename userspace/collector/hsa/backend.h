// The HSA backend: hooks in the runtime's API tables, and what they work with.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_BACKEND_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_BACKEND_H_

#include <stdint.h>

#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/common/process.h"
#include "userspace/collector/hsa/agents.h"
#include "userspace/collector/hsa/api_tables.h"
#include "userspace/collector/hsa/capture.h"
#include "userspace/collector/hsa/copies.h"
#include "userspace/collector/hsa/doorbell.h"
#include "userspace/collector/hsa/executables.h"
#include "userspace/collector/hsa/functions.h"
#include "userspace/collector/hsa/intercept.h"
#include "userspace/collector/hsa/live_entry.h"
#include "userspace/collector/hsa/op_tracker.h"
#include "userspace/collector/hsa/queue_registry.h"
#include "userspace/collector/hsa/recording.h"
#include "userspace/collector/hsa/reentry.h"

namespace rocattach::collector {

// Why this backend is in force, as the control block has it.
struct BackendReason {
  rocattach_backend_reason reason;
  const char* text;
};
// Where nobody has asked for rocprofiler-sdk.
extern const BackendReason kDefaultBackend;

// All zero, and large: apart from the backend, whose other parts have values to begin
// with, it takes no memory for queues that a process does not have.
extern QueueRegistry g_queues;

// Its parts are open to the hooks (hooks.cc), which are called with nothing but the
// application's arguments. As Process trivially constructed and never destroyed.
struct HsaBackend {
  AmdSlots amd_slots;
  HsaFunctions functions = {};
  ApiTable* core_table = nullptr;  // where the runtime keeps it, even when shut down
  Agents agents;
  KernelTable kernels;
  Executables executables;
  OpTracker tracker;
  Capture capture;
  DoorbellCapture doorbell;
  InterceptCapture intercept;
  Copies copies;
  QueueRegistry& queues = g_queues;
  HsaRecording recording;
  LiveEntry live;
  Reentry reentry;
  // The runtime's own function makes the queues, not one of a tool that takes them
  // over.
  bool queues_are_the_runtimes = true;
  // The runtime may be called from our own thread; not while it shuts down.
  TinyLock runtime_lock;
  TinyLock pool_lock;
  bool pool_failed = false;
  // A producer was seen that rings doorbells without calling the runtime.
  uint32_t saw_bypassed_doorbell = 0;

  // Once the process is set up. 0 or an errno value.
  int Init();
  // In a forked child, whose tables may have our hooks in them: keeps what these call.
  void StartAnewInChild();

  // From OnLoad, with the start lock. False if this was not the time for it, or the
  // runtime was refused.
  bool Arm(ApiTableRoot* root, const BackendReason& reason);
  // The same where our functions are in the live table. False too while the runtime is
  // not open.
  bool ArmByLiveTable(ApiTableRoot* root);
  // From OnUnload: the runtime is about to free what its handles stand for.
  void Unload();
  // Around hsa_shut_down, which may be the last one: what has finished is published,
  // and the worker kept out.
  void PrepareForShutDown();
  // `last`: the runtime has ended, and its tables have become its own again.
  void FinishShutDown(bool last);
  // At exit: from here on hooks pass through. `in_use`: this backend was armed.
  void End(bool in_use);

  // The worker's round over all queues; true if anything is in flight or waits.
  bool Tick(RingHandle* ring);

  // Makes the signal pool if there is none yet.
  void PreparePool();
  // Queues made from now on are intercept queues.
  bool UseIntercept() const {
    // A tool that takes queues over would not find its own in ours.
    if (!queues_are_the_runtimes) return false;
    uint64_t flags = LoadRelaxed(&g_process.memory.control()->plan_flags);
    if ((flags & ROCATTACH_PLAN_FORCE_INTERCEPT) != 0) return true;
    if ((flags & ROCATTACH_PLAN_FORCE_DOORBELL) != 0) return false;
    return LoadRelaxed(&saw_bypassed_doorbell) != 0;
  }
  // Finds out whether another tool takes over the runtime's queues.
  void FindQueueOwner(const ApiTable* core);

  // Notices what the GPU has consumed without a ring through us, of all queues. While
  // we are armed: later rings do not come through us any more, and are not ours to
  // miss.
  void CatchUpAll(RingHandle* ring);
  // Publishes what has finished, of all queues. `rest_too`: what has not, as well.
  void HarvestAll(RingHandle* ring, bool rest_too);

 private:
  // Calls the function with each queue that lives and whose lock is to be had, held.
  template <typename Function>
  void ForEachLockedQueue(RingHandle* ring, Function function);
  bool TickQueue(Queue* q, RingHandle* ring, bool recording);
  const char* ReadTables(ApiTableRoot* root);
  const char* ReadRuntime(rocattach_collector_reason* reason);
  void BeginRecording(rocattach_entry_path entry, ApiTableRoot* root,
                      const BackendReason& reason);
  void PublishFinished(RingHandle* ring);
  void ForgetRuntime(RingHandle* ring);
};

extern HsaBackend g_hsa;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_BACKEND_H_
