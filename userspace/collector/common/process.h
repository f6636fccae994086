// The process that the collector runs in: what exists once, whichever backend is in
// force.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_COMMON_PROCESS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_COMMON_PROCESS_H_

#include <stdint.h>

#include "userspace/collector/common/agent_ids.h"
#include "userspace/collector/common/dictionary.h"
#include "userspace/collector/common/environment.h"
#include "userspace/collector/common/fork_guard.h"
#include "userspace/collector/common/memory.h"
#include "userspace/collector/common/plan_gate.h"
#include "userspace/collector/common/ring.h"
#include "userspace/collector/common/worker.h"

namespace rocattach::collector {

// Values of Process::phase.
enum Phase : uint32_t {
  kPhaseNone = 0,    // start has not run, or failed
  kPhaseLoaded = 1,  // waiting for the runtime to open
  kPhaseArmed = 2,   // the tables are ours
  kPhaseRefused = 3,
  kPhaseUnloaded = 4,  // the runtime has shut down
  kPhaseEnded = 5,     // exit handlers ran
};

// What the backends call of the whole collector, which lies above them.
struct Upcalls {
  void (*run_worker)();      // the thread's work
  void (*end)(void*);        // at exit
  void (*hsa_armed)();       // the HSA backend has been armed by the live table
  void (*hsa_shuts_down)();  // hsa_shut_down is about to run
};

// Trivially constructed and never destroyed: exit handlers of others may still run our
// hooks after our own have run.
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
  // We have stopped by ourselves: nobody drains. Until the next command.
  uint32_t self_stopped = 0;
  // A session has brought rocprofiler-sdk into the process, or is about to.
  uint32_t sdk_added = 0;
  AgentIds agent_ids;
  Dictionary dictionary;
  PlanGate plans;

  // True where hooks have anything to do: armed, and not in a forked child.
  bool Live() const { return guard.Ours() && LoadRelaxed(&phase) == kPhaseArmed; }
  // `recording` asks for this, apart from any plan.
  bool Baseline(uint64_t plan_flag) const {
    const rocattach_control* c = memory.control();
    return LoadRelaxed(&c->recording) != 0 && LoadRelaxed(&self_stopped) == 0 &&
           (LoadRelaxed(&c->plan_flags) & plan_flag) != 0;
  }

  // Creates the shared memory and what lies in it. 0 or an errno value.
  int SetUp(const rocattach_collector_config& new_config, const Upcalls* calls);
  // Brings the collector in at the runtime's next start. 0 or an errno value.
  int InstallVariables();
  // Arranges that Upcalls::end runs at exit, before the static destructors of the
  // runtime.
  void RegisterEnd();
  // At the end of arming: until the service reads us, so that nothing is missed.
  void WaitForService();

  // Publishes which backend is in force; what it can do has been stored before.
  void PublishBackend(rocattach_backend backend, rocattach_backend_reason why,
                      const char* text);
  // Publishes why the live table could not be used.
  void PublishEntryFailure(const char* why);
  void Refuse(rocattach_collector_reason reason, const char* why);
};

extern Process g_process;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_COMMON_PROCESS_H_
