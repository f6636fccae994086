// The rounds of the collector's thread: it publishes what finishes while no doorbell is
// rung, retries deferred doorbells, executes plans, updates the totals, and restores
// the environment if the runtime never calls.
#include "userspace/collector/collector.h"
#include "userspace/collector/common/service_watch.h"

namespace rocattach::collector {
namespace {

constexpr uint32_t kBusyTickMsec = 4;     // something is in flight
constexpr uint32_t kQuietTickMsec = 200;  // recording, but nothing happens
// What begins meanwhile need not end it.
constexpr uint64_t kLongestShortSleepNs = 20'000'000;
constexpr uint32_t kLoadTickMsec = 50;
// A program may open the runtime at any time; the thread that does so wakes us.
constexpr uint32_t kOpenTickMsec = 1000;
// A runtime that has not called OnLoad by then never will.
constexpr uint64_t kLoadTimeoutNs = 5'000'000'000;

// How long to sleep, at most; 0: without a limit.
struct Timeout {
  uint64_t msec = 0;
  uint64_t ns = 0;

  uint64_t Shorter() const {
    return ns == 0 || (msec != 0 && msec * 1'000'000 < ns) ? msec * 1'000'000 : ns;
  }
};

// One round while the runtime is open, or has been. False if it is to be repeated at
// once.
bool Round(ServiceWatch* watch, Timeout* timeout) {
  Process& p = g_process;
  Collector& c = g_collector;
  rocattach_control* control = p.memory.control();
  RingHandle ring = p.rings.Mine();
  bool busy = false;
  if (c.sdk.in_force()) {
    timeout->ns = c.sdk.Tick(&ring);
  } else {
    TakeHsaPlan(&ring);
    timeout->ns = c.late.Tick(&ring);
  }
  bool recording = LoadRelaxed(&control->recording) != 0 ||
                   c.hsa.recording.plan_kinds() != 0 || c.sdk.busy();
  if (!c.sdk.in_force()) busy = c.hsa.Tick(&ring);
  const bool was_stopped = LoadRelaxed(&p.self_stopped) != 0;
  watch->Check(&p, recording);
  // The service is back, perhaps with a plan.
  if (was_stopped && LoadRelaxed(&p.self_stopped) == 0) return false;
  p.rings.UpdateTotals();
  recording = recording && LoadRelaxed(&p.self_stopped) == 0;
  timeout->msec = busy ? kBusyTickMsec : (recording ? kQuietTickMsec : 0);
  if (uint32_t left = c.hsa.reentry.Expire(); left != 0) timeout->msec = left;
  return true;
}

}  // namespace

void RunWorker() {
  Process& p = g_process;
  ServiceWatch watch;
  const uint64_t give_up = BootNs() + kLoadTimeoutNs;
  for (;;) {
    const uint32_t phase = LoadAcquire(&p.phase);
    const uint32_t command = LoadAcquire(&p.memory.control()->command);
    Timeout timeout;
    if (phase == kPhaseEnded || phase == kPhaseRefused) break;
    if (phase == kPhaseNone || phase == kPhaseLoaded) {
      if (BootNs() > give_up && !g_hsa.live.installed()) {
        // Another thread may just now be inside OnLoad, which restores as well:
        // harmless.
        p.environment.Restore();
        break;
      }
      timeout.msec = BootNs() > give_up ? kOpenTickMsec : kLoadTickMsec;
    } else if (!Round(&watch, &timeout)) {
      continue;
    }
    const uint64_t sleep_ns = timeout.Shorter();
    const bool long_sleep = sleep_ns == 0 || sleep_ns > kLongestShortSleepNs;
    p.worker.Sleep(command, sleep_ns, long_sleep);
  }
}

}  // namespace rocattach::collector
