// The HSA backend: hooks in the runtime's API tables, and their state.
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
#include "userspace/collector/hsa/old_queues.h"
#include "userspace/collector/hsa/op_tracker.h"
#include "userspace/collector/hsa/queue_registry.h"
#include "userspace/collector/hsa/recording.h"
#include "userspace/collector/hsa/reentry.h"

namespace rocattach::collector {

// The reason for using this backend, as in the control block.
struct BackendReason {
  rocattach_backend_reason reason;
  const char* text;
};
// The reason if rocprofiler-sdk was not requested.
extern const BackendReason kDefaultBackend;

// All zero, and large: kept separate from the backend, whose other members have initial
// values, so that it takes no memory for queues that a process does not have.
extern QueueRegistry g_queues;

// Its members are public for the hooks (hooks.cc), which are called with the
// application's arguments only. Like Process, trivially constructed and never
// destroyed.
struct HsaBackend {
  AmdSlots amd_slots;
  bool intercept_overflow_asserts = false, intercept_batches = false;
  uint32_t unproven = 0;  // as in LiveTables
  HsaFunctions functions = {};
  ApiTable* core_table = nullptr;  // in the runtime's memory, even when it is shut down
  Agents agents;
  KernelTable kernels;
  Executables executables;
  OpTracker tracker;
  Capture capture;
  DoorbellCapture doorbell;
  InterceptCapture intercept;
  Copies copies;
  QueueRegistry& queues = g_queues;
  OldQueues& old_queues = g_old_queues;
  HsaRecording recording;
  LiveEntry live;
  Reentry reentry;
  // The reason for using this backend, if it was entered through the live table.
  const BackendReason* live_reason = &kDefaultBackend;
  // Queues are created by the runtime's own function, not by a tool that takes them
  // over.
  bool queues_are_the_runtimes = true;
  // Held while our thread calls the runtime, and while the runtime shuts down.
  TinyLock runtime_lock;
  TinyLock pool_lock;
  bool pool_failed = false;
  uint64_t memory_operations = 0;  // recorded so far
  // A producer was seen that rings doorbells without calling the runtime.
  uint32_t saw_bypassed_doorbell = 0;
  // A queue was seen with its ring in device memory, or with a metadata ring. Intercept
  // queues would access the former packet by packet, and do not handle the latter.
  uint32_t saw_device_ring = 0;

  // Not 0: the registry may contain lost queues.
  uint32_t any_lost = 0;

  // Call this once the process is set up. 0 or an errno value.
  int Init();
  // For a forked child, whose tables may contain our hooks: keeps what the hooks call.
  void StartAnewInChild();

  // Called from OnLoad, with the start lock. False if this was not the time to arm, or
  // if the runtime was refused.
  bool Arm(ApiTableRoot* root, const BackendReason& reason);
  // The same if our functions are in the live table. Also false while the runtime is
  // not open.
  bool ArmByLiveTable(ApiTableRoot* root);
  // Refuses because there is no memory for the stack that arming needs.
  void RefuseWithoutStack();
  // From OnUnload: the runtime is about to free the objects behind its handles.
  void Unload();
  // Before hsa_shut_down, which may be the last one: publishes what has finished, and
  // keeps the worker out.
  void PrepareForShutDown();
  // `last`: the runtime has shut down, and its tables have its own functions again.
  void FinishShutDown(bool last);
  // At exit: from here on, hooks only forward calls. `in_use`: this backend was armed.
  void End(bool in_use);

  // The worker's round over all queues; true if anything is in flight or waiting.
  bool Tick(RingHandle* ring);

  // Starts to track a queue of the application, from packet `first` on: all before it
  // have been rung for, or will be, without us. `in_device` may have been set already.
  void Track(Queue* q, hsa_queue_t* queue, const Agent& agent, bool intercepted,
             bool profiled, uint64_t first);
  // Creates the signal pool if there is none yet.
  void PreparePool();
  // The same for hooks, whose thread may have little stack.
  void PreparePoolOnOwnStack();
  // True if queues created from now on must be intercept queues.
  bool UseIntercept() const {
    // A tool that takes over queues would not recognise ours.
    if (!queues_are_the_runtimes) return false;
    if (intercept_batches || amd_slots.queue_intercept_register == kNoSlot)
      return false;
    uint64_t flags = LoadRelaxed(&g_process.memory.control()->recording_flags);
    if ((flags & ROCATTACH_RECORDING_FORCE_INTERCEPT) != 0) return true;
    if ((flags & ROCATTACH_RECORDING_FORCE_DOORBELL) != 0) return false;
    return LoadRelaxed(&saw_bypassed_doorbell) != 0 &&
           LoadRelaxed(&saw_device_ring) == 0;
  }
  // Keeps what was found out about the tables.
  void UseTables(const LiveTables& tables);
  // Finds out whether another tool takes over the runtime's queues.
  void FindQueueOwner(const ApiTable* core);

  // Detects packets of all queues that the GPU has consumed without a ring through us.
  // Only while we are armed: later rings do not pass through us, and do not count as
  // missed.
  void CatchUpAll(RingHandle* ring);
  // Another tool has taken our functions out of the tables: queues, signals and kernels
  // may be destroyed without our knowledge. From here on none of them is read. Returns
  // false if another thread is using a queue: then call it again.
  bool LoseTrack(RingHandle* ring);
  // The application is inside a call with this queue: if the queue was lost, tracks it
  // again, or finds that it is another queue at the same address.
  void Regain(const hsa_queue_t* handle);
  // Counts each lost queue once: the number of packets submitted to it is not known.
  void CountLost(RingHandle* ring);
  // Reads the existing kernels again if they were lost. The runtime must be callable.
  void ReadLostKernels();
  // True if the runtime is still the one in which we were armed. If it is not, what we
  // have allocated in that one is gone.
  bool RuntimeIsTheSame();
  // The runtime has shut down, or started again: forgets everything without reading it,
  // and stores our functions in its tables. With the runtime's lock.
  void ForgetLastRuntime(RingHandle* ring);

  // The application has seen the end of an operation: publishes the finished operations
  // up to the first few unfinished ones of each queue.
  void PublishSeen();
  // Publishes finished operations of all queues. `rest_too`: unfinished ones as well.
  void HarvestAll(RingHandle* ring, bool rest_too);
  // Publishes all that is left as unfinished, without reading anything.
  void PublishRest(RingHandle* ring);
  // Forwards rings that wait for an earlier packet.
  void PassOnAll(RingHandle* ring);

 private:
  // Calls the function with each live queue whose lock can be taken, with the lock
  // held.
  template <typename Function>
  void ForEachLockedQueue(RingHandle* ring, Function function);
  bool TickQueue(Queue* q, RingHandle* ring, bool recording);
  // With the queue's lock, right before the queue is read: checks whether it still
  // exists, as far as possible. False: nothing of it may be read.
  bool MayRead(Queue* q);
  void Lose(Queue* q);
  // With the queue's lock: frees the entry of a queue destroyed without our knowledge.
  void Retire(Queue* q, RingHandle* ring);
  void LoadKernels();
  const char* ReadTables(ApiTableRoot* root);
  const char* ReadRuntime(rocattach_collector_reason* reason);
  void PublishBackend(const BackendReason& reason);
  // Properties of a queue's ring: in device memory, with a ring of metadata beside it.
  bool IsInDevice(const hsa_queue_t* queue) const;
  bool HasMetadata(hsa_queue_t* queue) const;
  void BeginRecording(rocattach_entry_path entry, ApiTableRoot* root,
                      const BackendReason& reason);
  void PublishFinished(RingHandle* ring);
  void ForgetRuntime(RingHandle* ring);
};

extern HsaBackend g_hsa;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_BACKEND_H_
