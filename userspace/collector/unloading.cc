// The end of a runtime that may start again: by OnUnload where we came in by OnLoad,
// and around hsa_shut_down where our functions are in the live table.
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "userspace/collector/collector.h"

namespace rocattach::collector {
namespace {

constexpr uint32_t kExitPatienceMsec = 50;

// Long enough for a thread to get a CPU and to come as far as looking for tools.
constexpr uint64_t kEnvironmentGraceNs = 50'000'000;

// Threads of the process; 0 if that cannot be found out.
uint32_t CountThreads() {
  char text[512];
  int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  ssize_t bytes = read(fd, text, sizeof(text) - 1);
  close(fd);
  if (bytes <= 0) return 0;
  text[bytes] = '\0';
  // The name, in parentheses, is the second of its fields, num_threads the 20th.
  const char* at = strrchr(text, ')');
  for (int field = 2; at != nullptr && field < 20; ++field) at = strchr(at + 1, ' ');
  return at == nullptr ? 0 : static_cast<uint32_t>(strtoul(at, nullptr, 10));
}

// For threads that entered hsa_init before our hook was there:
// 1. They wait for the runtime's lock, which the caller of OnUnload holds.
// 2. When it is free, one of them loads the runtime anew, past our hook, and looks for
//    tools in the environment.
// Whether there are such threads cannot be seen. In a process that has no threads
// beside the caller and our worker there are none.
void LetWaitingThreadsFindUs() {
  Collector& c = g_collector;
  if (CountThreads() == 2) return;
  TinyLockHolder hold(c.again_lock);
  if (InstallVariables() != 0) return;
  c.environment_until_ns = BootNs() + kEnvironmentGraceNs;
}

// With the runtime's lock: nobody of ours looks at what the runtime is about to free.
// What has finished is published; what has not may finish yet, unless this is the end.
void PublishFinished(RingHandle* ring) {
  Collector& c = g_collector;
  c.CatchUpAll(ring);
  c.HarvestAll(ring, /*rest_too=*/false);
}

// The runtime has freed its queues, or is about to. Nothing is read of them.
void ForgetRuntime(RingHandle* ring) {
  Collector& c = g_collector;
  for (uint32_t i = 0; i < c.queues.count(); ++i) {
    Queue* q = c.queues.at(i);
    if (LoadAcquire(&q->amd) == nullptr) continue;
    c.queues.Hide(q);
    if (q->lock.LockFor(kExitPatienceMsec)) {
      c.tracker.PublishUnfinished(&q->ops, c.capture.Context(q, ring));
      c.tracker.Retire(&q->ops);
      q->marker_count = 0;
      c.queues.Free(q);
      q->lock.Unlock();
    }
  }
  c.copies.PublishUnfinished(ring);
  c.copies.RuntimeGone();
  c.tracker.signals().Drop();
  c.pool_failed = false;
  c.kernels.Forget();
  c.rings.UpdateTotals();
  c.memory.SetState(ROCATTACH_STATE_UNLOADED);
}

// The SDK that a session has brought uses the runtime. Its plan is taken up again when
// the runtime is back.
void PauseLateSdk() {
  Collector& c = g_collector;
  if (c.late.Pause()) c.plans.Reconsider();
}

}  // namespace

uint32_t ExpireEnvironment() {
  Collector& c = g_collector;
  TinyLockHolder hold(c.again_lock);
  if (c.environment_until_ns == 0) return 0;
  uint64_t now_ns = BootNs();
  bool waiting = LoadAcquire(&c.phase) == kPhaseUnloaded;
  if (waiting && (now_ns < c.environment_until_ns || c.inits_under_way != 0)) return 10;
  c.environment_until_ns = 0;
  if (waiting) c.environment.Restore();
  return 0;
}

// The runtime is about to free what its handles stand for. Queues that the application
// leaked are still there, so finished work can be read.
void Unload() {
  ErrnoKeeper keep_errno;
  Collector& c = g_collector;
  if (!c.guard.Ours() || LoadAcquire(&c.phase) != kPhaseArmed || c.live.installed()) {
    return;
  }
  if (c.sdk.in_force()) {
    c.sdk.RuntimeGone();
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseUnloaded));
    c.rings.UpdateTotals();
    c.memory.SetState(ROCATTACH_STATE_UNLOADED);
    return;
  }
  PauseLateSdk();
  // Without a limit: what the worker looks at under this lock is freed next. It calls
  // nothing there that could wait.
  c.runtime_lock.Lock();
  RingHandle ring = c.rings.Mine();
  PublishFinished(&ring);
  StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseUnloaded));
  // What other threads have rung for meanwhile.
  c.HarvestAll(&ring, /*rest_too=*/false);
  ForgetRuntime(&ring);
  c.runtime_lock.Unlock();
  LetWaitingThreadsFindUs();
  c.worker.Wake();
}

void PrepareForShutDown() {
  ErrnoKeeper keep_errno;
  Collector& c = g_collector;
  PauseLateSdk();
  c.runtime_lock.Lock();  // as above
  RingHandle ring = c.rings.Mine();
  PublishFinished(&ring);
}

void FinishShutDown(bool last) {
  Collector& c = g_collector;
  if (last) {
    // Another thread may open the runtime anew from here on, past our hook for
    // hsa_init, because the table had lost it. Then the first use of the runtime arms
    // us, and that waits for this lock.
    TinyLockHolder hold(c.start_lock);
    StoreRelease(&c.phase, static_cast<uint32_t>(kPhaseUnloaded));
    c.live.Restore();
    RingHandle ring = c.rings.Mine();
    ForgetRuntime(&ring);
  }
  c.runtime_lock.Unlock();
  c.worker.Wake();
}

}  // namespace rocattach::collector
