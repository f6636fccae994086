// The collector as a whole: what exists once per process.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_

#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/environment.h"
#include "userspace/collector/common/fork_guard.h"
#include "userspace/collector/common/kernel_table.h"
#include "userspace/collector/common/memory.h"
#include "userspace/collector/common/plan_gate.h"
#include "userspace/collector/common/ring.h"
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
#include "userspace/collector/sdk/backend.h"
#include "userspace/collector/sdk/late_sampler.h"
#include "userspace/collector/worker.h"

namespace rocattach::collector {

// Values of Collector::phase.
enum Phase : uint32_t {
  kPhaseNone = 0,    // start has not run, or failed
  kPhaseLoaded = 1,  // waiting for the runtime to open
  kPhaseArmed = 2,   // the tables are ours
  kPhaseRefused = 3,
  kPhaseUnloaded = 4,  // the runtime has shut down
  kPhaseEnded = 5,     // exit handlers ran
};

// All zero, and large: apart from the collector, whose other parts have values to begin
// with, it takes no memory for queues that a process does not have.
extern QueueRegistry g_queues;

// Trivially constructed and never destroyed: exit handlers of others may still run our
// hooks after our own have run.
struct Collector {
  uint32_t phase = kPhaseNone;
  TinyLock start_lock;
  rocattach_collector_config config = {};
  ForkGuard guard;
  Memory memory;
  Environment environment;
  RingSet rings;
  Dictionary dictionary;
  AmdSlots amd_slots;
  HsaFunctions hsa = {};
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
  Worker worker;
  PlanGate plans;
  SdkBackend sdk;
  // The HSA tools back end: what the plan in force records, ROCATTACH_PLAN_RECORD_*.
  uint32_t plan_kinds = 0;
  LateSampler late;
  LiveEntry live;
  // The runtime's own function makes the queues, and nobody's who takes them over.
  bool queues_are_the_runtimes = true;
  TinyLock plan_lock;
  // Orders the installations of the environment after a shut-down and their end.
  TinyLock again_lock;
  uint32_t inits_under_way = 0;       // threads inside HookInit
  uint64_t environment_until_ns = 0;  // Unload has installed it: until then
  // The runtime may be called from our own thread; not while it shuts down.
  TinyLock runtime_lock;
  TinyLock pool_lock;
  bool pool_failed = false;
  // We have stopped by ourselves: nobody drains. Until the next command.
  uint32_t self_stopped = 0;
  // A producer was seen that rings doorbells without calling the runtime.
  uint32_t behind_our_back = 0;

  // True where hooks have anything to do: armed, and not in a forked child.
  bool Live() const { return guard.Ours() && LoadRelaxed(&phase) == kPhaseArmed; }
  // The same for what rocprofiler-sdk calls.
  bool SdkLive() const { return Live() && sdk.in_force(); }
  // `recording` asks for this, apart from any plan.
  bool Baseline(uint64_t plan_flag) const {
    const rocattach_control* c = memory.control();
    return LoadRelaxed(&c->recording) != 0 && LoadRelaxed(&self_stopped) == 0 &&
           (LoadRelaxed(&c->plan_flags) & plan_flag) != 0;
  }
  bool Planned(uint32_t record_kind) const {
    return (LoadRelaxed(&plan_kinds) & record_kind) != 0 &&
           LoadRelaxed(&self_stopped) == 0;
  }
  // Either of the two.
  bool Recording(uint64_t plan_flag) const {
    return Baseline(plan_flag) || Planned(plan_flag == ROCATTACH_PLAN_DISPATCHES
                                              ? ROCATTACH_PLAN_RECORD_DISPATCHES
                                              : ROCATTACH_PLAN_RECORD_COPIES);
  }
  // Makes the signal pool if there is none yet.
  void PreparePool();
  // Queues made from now on are intercept queues.
  bool UseIntercept() const {
    // A tool that takes queues over would not find its own in ours.
    if (!queues_are_the_runtimes) return false;
    uint64_t flags = LoadRelaxed(&memory.control()->plan_flags);
    if ((flags & ROCATTACH_PLAN_FORCE_INTERCEPT) != 0) return true;
    if ((flags & ROCATTACH_PLAN_FORCE_DOORBELL) != 0) return false;
    return LoadRelaxed(&behind_our_back) != 0;
  }

  // Says which back end is in force; what it can do has been stored before.
  void PublishBackend(rocattach_backend backend, rocattach_backend_reason reason,
                      const char* text);
  // Arranges that End() runs at exit, before the static destructors of the runtime.
  void RegisterEnd();
  // Why the live table was not the way in.
  void NoteEntry(const char* why);
  // hsa_init has failed: the program has no GPU, and nothing to record.
  void NoteFailedInit(hsa_status_t status);
  // Finds out whether another tool stands between us and the runtime's queues.
  void LookForOwnQueues(const ApiTable* core);
  // At the end of arming: until the service reads us, so that nothing is missed.
  void WaitForService();
  // The same, and then its plan, if it has one, with the HSA tools back end.
  void BeginService();

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
};

extern Collector g_collector;

// Brings the collector in at the runtime's next start (collector.cc). 0 or an errno.
int InstallVariables();
// True if a runtime that starts again brings a table with our functions in it: an SDK
// that has come late puts back the table as it found it, and its own functions over
// ours. Then nothing is to be replaced, and what our functions call is as it was: the
// SDK's would call ours again (hooks.cc).
bool HooksInPlace(const ApiTableRoot* root);
// Replaces the table entries that we hook (hooks.cc).
void InstallHooks(ApiTableRoot* root, const AmdSlots& slots);
// Arranges that hsa_init comes by (hooks.cc).
void HookRuntimeInit();
// Ends an installation of the environment that nobody has made use of in time. How long
// it still has, in ms; 0 if there is none (unloading.cc).
uint32_t ExpireEnvironment();
// Gives the table its own hsa_init back (hooks.cc).
void UnhookInit(ApiTable* core);

// Carries out a plan with the HSA tools back end, if one is pending (hsa_plan.cc).
// `ring` is the calling thread's; null inside OnLoad.
void TakeHsaPlan(Collector* collector, RingHandle* ring);

// The entry points' substance (collector.cc, arming.cc, unloading.cc).
int Start(const rocattach_collector_config* config);
bool Load(ApiTableRoot* root, uint64_t runtime_version);
void Unload();
// The same where our functions are in the live table. True if this call armed us; false
// too while the runtime is not open.
bool ArmByLiveTable(ApiTableRoot* root);
// Around hsa_shut_down, which may be the last one: what has finished is published, and
// the worker kept out.
void PrepareForShutDown();
// `last`: the runtime has ended, and its tables have become its own again.
void FinishShutDown(bool last);
void End();

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COLLECTOR_H_
