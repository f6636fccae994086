#include "userspace/collector/hsa/ring_gate.h"

namespace rocattach::collector {

constinit RingGate g_ring_gate;

namespace {

// See WakeRuntime().
constexpr uint64_t kWakeNs = 10'000'000;

// Short naps between looks: the CPU belongs to those who are waited for.
void Nap(uint32_t round) {
  if (round < 20) {
    sched_yield();
    return;
  }
  timespec nap = {0, round < 200 ? 20'000 : 200'000};
  nanosleep(&nap, nullptr);
}

}  // namespace

void RingGate::DispatchBegun(uint64_t queue) {
  uint32_t* in_flight = InFlightOf(queue);
  __atomic_fetch_add(in_flight, 1u, __ATOMIC_SEQ_CST);
  __atomic_fetch_add(&begun_, 1u, __ATOMIC_SEQ_CST);
}

void RingGate::DispatchOver(uint64_t queue) {
  uint32_t* in_flight = InFlightOf(queue);
  // It may have been abandoned with its queue.
  uint32_t seen = LoadRelaxed(in_flight);
  while (seen != 0 &&
         !__atomic_compare_exchange_n(in_flight, &seen, seen - 1, true,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
}

// What has not ended never will. The SDK's number of a queue is one of these two.
void RingGate::QueueGone(const hsa_queue_t* queue, uint64_t id) {
  const auto address = reinterpret_cast<uint64_t>(queue);
  in_flight_.Clear([&](uint64_t key) { return key == id + 1 || key == address + 1; });
}

void RingGate::OnFence(void* self_pointer) {
  auto* self = static_cast<RingGate*>(self_pointer);
  // A handler of the application that rings a doorbell there must not wait for what
  // only this thread can bring to an end.
  self->rings_.set_exempt(static_cast<uint32_t>(syscall(SYS_gettid)));
  __atomic_fetch_add(&self->fences_done_, 1u, __ATOMIC_RELEASE);
  FutexWake(&self->fences_done_);
}

void RingGate::WakeRuntime() {
  if (!installed_) return;
  next_.async_function([](void*) {}, nullptr);
}

bool RingGate::Fence(uint64_t end_ns) {
  // One that is still to run, from an earlier attempt, comes before the new one.
  const uint32_t wanted = fences_wanted_ + 1;
  if (next_.async_function(&OnFence, this) != HSA_STATUS_SUCCESS) return false;
  fences_wanted_ = wanted;
  for (;;) {
    const uint32_t done = LoadAcquire(&fences_done_);
    if (done == wanted) return true;
    const uint64_t now = BootNs();
    if (now >= end_ns || LoadAcquire(&abandoned_) != 0) return false;
    const uint64_t left_ns = end_ns - now;
    FutexWaitNs(&fences_done_, done, left_ns < kWakeNs ? left_ns : kWakeNs);
    if (LoadAcquire(&fences_done_) == done) WakeRuntime();
  }
}

bool RingGate::HoldRings(uint64_t limit_ns, uint32_t* unfinished) {
  if (!RingsAreReached()) {
    *unfinished = Unfinished();
    return false;
  }
  const uint64_t end_ns = BootNs() + limit_ns;
  const uint64_t give_up_ns = end_ns + kLongestSwitchNs;
  rings_.Close(Gate::kClosing, give_up_ns);
  uint64_t wake_ns = BootNs() + kWakeNs;
  for (uint32_t round = 0;; ++round) {
    const uint64_t begun = __atomic_load_n(&begun_, __ATOMIC_SEQ_CST);
    if (!AnyoneInside() && Unfinished() == 0 && (begun == 0 || Fence(end_ns))) {
      rings_.Close(Gate::kClosed, give_up_ns);
      // Packets that did not fit into a queue are passed on by the runtime's thread.
      if (!AnyoneInside() && Unfinished() == 0 &&
          __atomic_load_n(&begun_, __ATOMIC_SEQ_CST) == begun) {
        if (RingsAreStillReached()) return true;
        break;
      }
      rings_.Close(Gate::kClosing, give_up_ns);
    }
    const uint64_t now = BootNs();
    if (now >= end_ns || LoadAcquire(&abandoned_) != 0) break;
    if (now >= wake_ns) {
      WakeRuntime();
      wake_ns = now + kWakeNs;
    }
    Nap(round);
  }
  *unfinished = Unfinished();
  rings_.Open();
  return false;
}

bool RingGate::HoldCopies(uint64_t limit_ns) {
  if (!CopiesAreReached()) return false;
  const uint64_t end_ns = BootNs() + limit_ns;
  copies_.Close(Gate::kClosed, end_ns + kLongestSwitchNs);
  for (uint32_t round = 0; __atomic_load_n(&inside_copies_, __ATOMIC_SEQ_CST) != 0;
       ++round) {
    if (BootNs() >= end_ns) {
      copies_.Open();
      return false;
    }
    Nap(round);
  }
  return true;
}

void RingGate::StartAnewInChild() {
  rings_ = Gate();
  copies_ = Gate();
  abandoned_ = count_copies_ = 0;
  inside_others_ = inside_copies_ = 0;
  begun_ = copies_submitted_ = 0;
  fences_wanted_ = fences_done_ = 0;
  life_lock_ = SleepingLock();
  doorbells_.StartAnewInChild();
  in_flight_.StartAnewInChild();
  in_flight_elsewhere_ = 0;
}

}  // namespace rocattach::collector
