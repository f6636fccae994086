// The process that the collector runs in: state that exists once, for both backends.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_PROCESS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_PROCESS_H_

#include <stdint.h>

#include "userspace/collector/common/agent_ids.h"
#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/environment.h"
#include "userspace/collector/common/fork_guard.h"
#include "userspace/collector/common/memory.h"
#include "userspace/collector/common/plan_set.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/common/worker.h"

namespace rocattach::collector {

// Values of Process::phase.
enum Phase : uint32_t {
  kPhaseNone = 0,    // start has not run, or failed
  kPhaseLoaded = 1,  // waiting for the runtime to open
  kPhaseArmed = 2,   // our functions are in the tables
  kPhaseRefused = 3,
  kPhaseUnloaded = 4,  // the runtime has shut down
  kPhaseEnded = 5,     // exit handlers ran
};

// Functions of the whole collector that the backends call.
struct Upcalls {
  void (*run_worker)();      // body of the worker thread
  void (*end)(void*);        // at exit
  void (*hsa_armed)();       // the HSA backend has been armed by the live table
  void (*hsa_shuts_down)();  // hsa_shut_down is about to run
};

// Trivially constructed and never destroyed: exit handlers of other code may still call
// our hooks after ours have run.
struct Process {
  uint32_t phase = kPhaseNone;
  TinyLock start_lock;
  rocattach_collector_config config = {};
  ForkGuard guard;
  Memory memory;
  Environment environment;
  RingSet rings;
  Worker worker;
  const Upcalls* upcalls = nullptr;
  // Not 0: we have stopped recording by ourselves, until the next command, because
  // nothing drains the rings. The value is the number of the stop, from kFirstStop on.
  uint32_t self_stopped = 0;
  // Number of the stop after which another service has taken over: what passed by then
  // was not for that service to record.
  uint32_t forgotten_stop = 0;
  static constexpr uint32_t kFirstStop = 2;
  // Not 0: a session has loaded rocprofiler-sdk into the process, or is about to.
  uint32_t sdk_added = 0;
  AgentIds agent_ids;
  Dictionary dictionary;
  PlanSet plans;

  // True if hooks have something to do: armed, and not in a forked child.
  bool Live() const { return guard.Ours() && LoadRelaxed(&phase) == kPhaseArmed; }
  // True if we were attached while the runtime may have been open already.
  bool late() const { return (config.recording_flags & ROCATTACH_RECORDING_LATE) != 0; }
  // True if `recording` requests this, independently of any plan.
  bool Baseline(uint64_t flag) const {
    const rocattach_control* c = memory.control();
    return LoadRelaxed(&c->recording) != 0 && LoadRelaxed(&self_stopped) == 0 &&
           (LoadRelaxed(&c->recording_flags) & flag) != 0;
  }

  // The value of `sampling`, which applies to dispatches that no plan has selected.
  uint32_t Sampling() const { return LoadRelaxed(&memory.control()->sampling); }

  // Creates the shared memory and its contents. 0 or an errno value.
  int SetUp(const rocattach_collector_config& new_config, const Upcalls* calls);
  // Makes the runtime load the collector at its next start. 0 or an errno value.
  int InstallVariables();
  // Arranges for Upcalls::end to run at exit, before the static destructors of the
  // runtime.
  void RegisterEnd();
  // At the end of arming: waits until the service reads our memory, so that nothing is
  // missed.
  void WaitForService();

  // Publishes which backend is used; its capabilities must have been stored before.
  void PublishBackend(rocattach_backend backend, rocattach_backend_reason why,
                      const char* text);
  // Publishes why the live table could not be used.
  void PublishEntryFailure(const char* why);
  void Refuse(rocattach_collector_reason reason, const char* why);
};

extern Process g_process;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_PROCESS_H_
