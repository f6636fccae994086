#include "userspace/collector/worker.h"

#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>

#include "userspace/collector/collector.h"

namespace rocattach::collector {
namespace {

constexpr size_t kStackBytes = 256 * 1024;
constexpr uint32_t kBusyTickMsec = 4;     // something is in flight
constexpr uint32_t kQuietTickMsec = 200;  // recording, but nothing happens
constexpr uint32_t kLoadTickMsec = 50;
// A program may open the runtime when it likes; whoever does so wakes us.
constexpr uint32_t kOpenTickMsec = 1000;
// A runtime that has not called OnLoad by then is not going to.
constexpr uint64_t kLoadTimeoutNs = 5'000'000'000;
constexpr uint64_t kServiceTimeoutNs = 5'000'000'000;
// Published with a queue's lock held before producers get their turn.
constexpr uint32_t kChunk = 16;
constexpr uint32_t kPatience = 256;

}  // namespace

int Worker::Start(Collector* collector) {
  collector_ = collector;
  pthread_attr_t attributes;
  int error = pthread_attr_init(&attributes);
  if (error != 0) return error;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  // The application's signals are for the application's threads.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  StoreRelease(&running_, 1u);
  pthread_t thread;
  error = pthread_create(&thread, &attributes, &Worker::Main, this);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  if (error != 0) StoreRelease(&running_, 0u);
  return error;
}

void Worker::Wake() {
  StoreRelaxed(&asleep_, 0u);
  FutexWake(&collector_->memory.control()->command);
}

void* Worker::Main(void* self) {
  prctl(PR_SET_NAME, "rocattach");
  static_cast<Worker*>(self)->Run();
  return nullptr;
}

void Worker::Run() {
  Collector& c = *collector_;
  rocattach_control* control = c.memory.control();
  uint64_t give_up = BootNs() + kLoadTimeoutNs;
  for (;;) {
    uint32_t phase = LoadAcquire(&c.phase);
    uint32_t command = LoadAcquire(&control->command);
    uint64_t timeout = 0;  // milliseconds
    uint64_t timeout_ns = 0;
    if (phase == kPhaseEnded || phase == kPhaseRefused) break;
    if (phase == kPhaseNone || phase == kPhaseLoaded) {
      if (BootNs() > give_up && !c.live.installed()) {
        // Another thread may just now be inside OnLoad, which restores as well:
        // harmless.
        c.environment.Restore();
        break;
      }
      timeout = BootNs() > give_up ? kOpenTickMsec : kLoadTickMsec;
    } else {
      RingHandle ring = c.rings.Mine();
      bool busy = false;
      if (c.sdk.in_force()) {
        timeout_ns = c.sdk.Tick(&ring);
      } else {
        TakeHsaPlan(&c, &ring);
        timeout_ns = c.late.Tick(&ring);
      }
      bool recording = LoadRelaxed(&control->recording) != 0 ||
                       LoadRelaxed(&c.plan_kinds) != 0 || c.sdk.busy();
      // Somebody who shuts the runtime down holds this for good.
      if (!c.sdk.in_force() && c.runtime_lock.TryLock()) {
        if (LoadAcquire(&c.phase) == kPhaseArmed) busy = Tick(&ring);
        c.runtime_lock.Unlock();
      }
      const bool was_stopped = LoadRelaxed(&c.self_stopped) != 0;
      WatchService(recording);
      // The service is back, with a plan perhaps.
      if (was_stopped && LoadRelaxed(&c.self_stopped) == 0) continue;
      c.rings.UpdateTotals();
      recording = recording && LoadRelaxed(&c.self_stopped) == 0;
      bool baseline = recording && LoadRelaxed(&control->recording) != 0;
      StoreRelaxed(&control->recording_acked, baseline ? 1u : 0u);
      timeout = busy ? kBusyTickMsec : (recording ? kQuietTickMsec : 0);
      if (uint32_t left = ExpireEnvironment(); left != 0) timeout = left;
    }
    // While asleep for long, the next operation in flight wakes us; that it may just
    // miss the flag costs one period.
    if (timeout == 0 || timeout == kQuietTickMsec) StoreRelaxed(&asleep_, 1u);
    if (timeout_ns == 0 || (timeout != 0 && timeout * 1'000'000 < timeout_ns)) {
      timeout_ns = timeout * 1'000'000;
    }
    FutexWaitNs(&control->command, command, timeout_ns);
    StoreRelaxed(&asleep_, 0u);
  }
  StoreRelease(&running_, 0u);
}

bool Worker::Tick(RingHandle* ring) {
  Collector& c = *collector_;
  bool recording = c.Recording(ROCATTACH_PLAN_DISPATCHES);
  bool busy = false;
  for (uint32_t i = 0; i < c.queues.count(); ++i) {
    Queue* q = c.queues.at(i);
    if (LoadAcquire(&q->amd) != nullptr) busy |= TickQueue(q, ring, recording);
  }
  c.copies.Harvest(ring);
  return busy || c.copies.Pending();
}

bool Worker::TickQueue(Queue* q, RingHandle* ring, bool recording) {
  Collector& c = *collector_;
  if (!recording && LoadRelaxed(&q->ops.count) == 0 && LoadRelaxed(&q->deferred) == 0) {
    return false;
  }
  if (!q->lock.TryLock()) return true;
  if (q->closing || q->amd == nullptr) {
    q->lock.Unlock();
    return false;
  }
  if (!q->intercepted) {
    if (LoadRelaxed(&q->deferred) != 0) c.doorbell.Serve(q, ring);
    c.doorbell.ServeNew(q, ring);
    // A queue on which nobody ever rang through the runtime, and which moves.
    if (recording && c.doorbell.CatchUp(q, ring) && LoadAcquire(&q->rung) == 0 &&
        LoadRelaxed(&q->resumed) == 0) {
      StoreRelaxed(&c.behind_our_back, 1u);
    }
  }
  uint32_t oldest = q->ops.head;
  uint32_t published = 0;
  for (;;) {
    uint32_t n =
        c.tracker.Harvest(&q->ops, c.capture.Context(q, ring), kChunk, kPatience);
    published += n;
    if (!q->intercepted) c.doorbell.ServeNew(q, ring);
    if (n == 0) break;
  }
  if (q->ops.head == oldest && published > kPatience) c.tracker.Rotate(&q->ops);
  bool busy = q->ops.count != 0 || LoadRelaxed(&q->deferred) != 0;
  if (q->intercepted) {
    q->lock.Unlock();
  } else {
    c.doorbell.Leave(q, ring);
  }
  return busy;
}

// Rings are full and nobody drains them: the service is gone. Recording on would cost
// the application time for nothing.
void Worker::WatchService(bool recording) {
  Collector& c = *collector_;
  rocattach_control* control = c.memory.control();
  uint32_t command = LoadRelaxed(&control->command);
  if (LoadRelaxed(&c.self_stopped) != 0) {
    if (command != stopped_command_) {
      full_since_ = 0;
      StoreRelaxed(&c.self_stopped, 0u);
    }
    return;
  }
  uint64_t dropped = c.rings.Dropped();
  uint64_t now = BootNs();
  uint64_t beat = LoadRelaxed(&control->service_beat_ns);
  if (!recording || dropped == dropped_) {
    if (beat > full_since_) full_since_ = 0;
  } else if (full_since_ == 0 || beat > full_since_) {
    full_since_ = now;
  }
  dropped_ = dropped;
  if (recording && full_since_ != 0 && now > full_since_ + kServiceTimeoutNs) {
    stopped_command_ = command;
    StoreRelaxed(&c.self_stopped, 1u);
  }
}

}  // namespace rocattach::collector
