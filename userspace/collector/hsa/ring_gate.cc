#include "userspace/collector/hsa/ring_gate.h"

namespace rocattach::collector {
constinit RingGate g_ring_gate;

namespace {

// See WakeRuntime().
constexpr uint64_t kWakeNs = 10'000'000;

// Short naps between checks leave the CPU to the threads that are waited for.
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
  // The dispatch may have been given up with its queue.
  uint32_t seen = LoadRelaxed(in_flight);
  while (seen != 0 &&
         !__atomic_compare_exchange_n(in_flight, &seen, seen - 1, true,
                                      __ATOMIC_SEQ_CST, __ATOMIC_RELAXED)) {
  }
}

// Unfinished dispatches never end. The SDK's number of the queue is one of these two.
void RingGate::QueueGone(const hsa_queue_t* queue, uint64_t id) {
  const auto address = reinterpret_cast<uint64_t>(queue);
  in_flight_.Clear([&](uint64_t key) { return key == id + 1 || key == address + 1; });
}

void RingGate::OnFence(void* self_pointer) {
  auto* self = static_cast<RingGate*>(self_pointer);
  // A handler of the application that rings a doorbell on this thread must not wait for
  // what only this thread can complete.
  self->rings_.set_exempt(static_cast<uint32_t>(syscall(SYS_gettid)));
  __atomic_fetch_add(&self->fences_done_, 1u, __ATOMIC_RELEASE);
  FutexWake(&self->fences_done_);
}

void RingGate::WakeRuntime() {
  if (!installed_) return;
  next_.async_function([](void*) {}, nullptr);
}

bool RingGate::Fence(uint64_t end_ns) {
  // A fence that is left over from an earlier attempt runs before the new one.
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

// The functions that are above rocprofiler-sdk's in the runtime's tables.

struct GateHooks {
  template <auto kStore>
  static void Store(hsa_signal_t signal, hsa_signal_value_t value) {
    RingGate& g = g_ring_gate;
    if (Unlikely(signal.handle == LoadRelaxed(&g.probe_)) && g.Probed()) return;
    uint32_t* inside = g.InsideOf(signal.handle);
    if (inside == nullptr) return (g.next_.*kStore)(signal, value);
    g.rings_.Enter(inside);
    (g.next_.*kStore)(signal, value);
    Gate::Leave(inside);
  }

  static hsa_status_t QueueCreate(hsa_agent_t agent, uint32_t size,
                                  hsa_queue_type32_t type,
                                  void (*callback)(hsa_status_t, hsa_queue_t*, void*),
                                  void* data, uint32_t private_bytes,
                                  uint32_t group_bytes, hsa_queue_t** queue) {
    RingGate& g = g_ring_gate;
    const hsa_status_t status = g.next_.queue_create(agent, size, type, callback, data,
                                                     private_bytes, group_bytes, queue);
    // No other thread knows the queue yet.
    if (status == HSA_STATUS_SUCCESS && g_process.guard.Ours()) {
      g.AddDoorbell((*queue)->doorbell_signal.handle);
    }
    return status;
  }

  static hsa_status_t AmdCreate(hsa_agent_t agent, QueueDescriptor* descriptors,
                                uint32_t count) {
    RingGate& g = g_ring_gate;
    const hsa_status_t status = g.next_.amd_queue_create(agent, descriptors, count);
    if (descriptors == nullptr || !g_process.guard.Ours()) return status;
    // After an error the descriptors may contain data that is not the runtime's.
    if (status != HSA_STATUS_SUCCESS) {
      StoreRelease(&g.any_signal_, 1u);
      return status;
    }
    for (uint32_t i = 0; i < count; ++i) {
      const hsa_queue_t* queue = descriptors[i].queue;
      if (DescribesQueue(descriptors[i])) {
        g.AddDoorbell(queue->doorbell_signal.handle);
      } else {
        // Its doorbell may be any signal.
        StoreRelease(&g.any_signal_, 1u);
      }
    }
    return status;
  }

  static hsa_status_t QueueDestroy(hsa_queue_t* queue) {
    RingGate& g = g_ring_gate;
    const uint64_t id = queue != nullptr ? queue->id : 0;
    const hsa_status_t status = g.next_.queue_destroy(queue);
    if (status == HSA_STATUS_SUCCESS && g_process.guard.Ours()) g.QueueGone(queue, id);
    return status;
  }

  static void NotifyKeptCall(bool init, uint64_t begin_ns) {
    const RingGate& g = g_ring_gate;
    ErrnoKeeper keep_errno;
    if (g.kept_call_ != nullptr) g.kept_call_(g.kept_call_data_, init, begin_ns);
  }

  // Several releases of the SDK end a process whose runtime shuts down and starts
  // again. So the last shut-down is kept from the runtime: it stays open, and the
  // next hsa_init finds it open.
  static hsa_status_t Init() {
    RingGate& g = g_ring_gate;
    if (!g_process.guard.Ours()) return g.next_.init();
    const uint64_t begin_ns = BootNs();
    SleepingLockHolder life(g.life_lock_);
    if (g.kept_open_) {
      g.kept_open_ = false;
      g.users_ = 1;
      NotifyKeptCall(/*init=*/true, begin_ns);
      return HSA_STATUS_SUCCESS;
    }
    const hsa_status_t status = g.next_.init();
    if (status == HSA_STATUS_SUCCESS) ++g.users_;
    return status;
  }

  static hsa_status_t ShutDown() {
    RingGate& g = g_ring_gate;
    if (!g_process.guard.Ours()) return g.next_.shut_down();
    const uint64_t begin_ns = BootNs();
    SleepingLockHolder life(g.life_lock_);
    if (g.kept_open_) return HSA_STATUS_ERROR_NOT_INITIALIZED;
    if (g.users_ > 1) {
      --g.users_;
      return g.next_.shut_down();
    }
    g.users_ = 0;
    g.kept_open_ = true;
    NotifyKeptCall(/*init=*/false, begin_ns);
    return HSA_STATUS_SUCCESS;
  }

  // A copy of 0 bytes is not counted: the runtime does not even use its signal.
  template <typename Submit>
  static hsa_status_t Copy(uint64_t bytes, Submit submit) {
    return Copies(bytes != 0 ? 1 : 0, submit);
  }
  template <typename Submit>
  static hsa_status_t Copies(uint64_t copies, Submit submit) {
    RingGate& g = g_ring_gate;
    if (copies == 0) return submit();
    g.copies_.Enter(&g.inside_copies_);
    const bool counted = LoadAcquire(&g.count_copies_) != 0;
    const hsa_status_t status = submit();
    if (counted && status == HSA_STATUS_SUCCESS) {
      __atomic_fetch_add(&g.copies_submitted_, copies, __ATOMIC_RELEASE);
    }
    Gate::Leave(&g.inside_copies_);
    return status;
  }

  static hsa_status_t AsyncCopy(void* dst, hsa_agent_t dst_agent, const void* src,
                                hsa_agent_t src_agent, size_t size, uint32_t num_deps,
                                const hsa_signal_t* deps, hsa_signal_t completion) {
    return Copy(size, [&] {
      return g_ring_gate.next_.memory_async_copy(dst, dst_agent, src, src_agent, size,
                                                 num_deps, deps, completion);
    });
  }
  static hsa_status_t AsyncCopyOnEngine(void* dst, hsa_agent_t dst_agent,
                                        const void* src, hsa_agent_t src_agent,
                                        size_t size, uint32_t num_deps,
                                        const hsa_signal_t* deps,
                                        hsa_signal_t completion, int engine,
                                        bool force_sdma) {
    return Copy(size, [&] {
      return g_ring_gate.next_.memory_async_copy_on_engine(
          dst, dst_agent, src, src_agent, size, num_deps, deps, completion, engine,
          force_sdma);
    });
  }
  static hsa_status_t AsyncCopyRect(
      const hsa_pitched_ptr_t* dst, const hsa_dim3_t* dst_offset,
      const hsa_pitched_ptr_t* src, const hsa_dim3_t* src_offset,
      const hsa_dim3_t* range, hsa_agent_t agent, hsa_amd_copy_direction_t direction,
      uint32_t num_deps, const hsa_signal_t* deps, hsa_signal_t completion) {
    const uint64_t bytes =
        range != nullptr ? uint64_t{range->x} * range->y * range->z : 0;
    return Copy(bytes, [&] {
      return g_ring_gate.next_.memory_async_copy_rect(dst, dst_offset, src, src_offset,
                                                      range, agent, direction, num_deps,
                                                      deps, completion);
    });
  }
  static hsa_status_t AsyncBatchCopy(const CopyOp* ops, uint32_t count,
                                     uint32_t num_deps, const hsa_signal_t* deps) {
    uint64_t copies = 0;
    const auto any = [](hsa_agent_t agent) { return agent.handle != 0; };
    for (uint32_t i = 0, known = KnownCopyOps(ops, count, any); i < known; ++i) {
      copies += MostCopies(ops[i]);
    }
    return Copies(copies, [&] {
      return g_ring_gate.next_.memory_async_batch_copy(ops, count, num_deps, deps);
    });
  }
};

const char* RingGate::Install(const ApiTableRoot& root, const AmdSlots& slots,
                              bool from_start) {
  if (slots.async_function == kNoSlot || slots.memory_async_copy == kNoSlot) {
    return "functions of the runtime that are needed for it are not understood";
  }
  next_.async_function = reinterpret_cast<decltype(next_.async_function)>(
      root.amd_ext->slots[slots.async_function]);
  if (next_.async_function == nullptr)
    return "the runtime's API table has a null entry";
  root_ = root;
  slots_ = slots;
  from_start_ = from_start;
  (void)ElfObject::Find(root.core, &runtime_);
  if (!from_start) StoreRelease(&any_signal_, 1u);
  const char* why = Store(/*again=*/false);
  installed_ = installed_ || why == nullptr;
  return why;
}

namespace {

template <typename F>
bool IsOurs(const ApiTable* table, uint32_t slot, F* ours) {
  return slot == kNoSlot ||
         LoadAcquire(&table->slots[slot]) == reinterpret_cast<void*>(ours);
}

}  // namespace

template <auto kMember, typename F>
bool RingGate::Swap(ApiTable* table, uint32_t slot, F ours, bool again) {
  if (slot == kNoSlot) return true;
  auto there = reinterpret_cast<F>(LoadAcquire(&table->slots[slot]));
  if (there == nullptr) return false;
  if (there == ours) return true;
  // Only the runtime's function and the one that ours calls surely do not call ours.
  if (again && there != next_.*kMember &&
      !runtime_.Contains(reinterpret_cast<const void*>(there), 1, PF_X)) {
    return true;
  }
  if (!again) first_.*kMember = there;
  StoreRelease(&(next_.*kMember), there);
  StoreRelease(&table->slots[slot], reinterpret_cast<void*>(ours));
  return true;
}

void RingGate::StoreAgain() {
  using H = GateHooks;
  // Queues may have been created without us.
  if (!IsOurs(root_.core, kCoreQueueCreate, &H::QueueCreate) ||
      !IsOurs(root_.amd_ext, slots_.queue_create, &H::AmdCreate)) {
    StoreRelease(&any_signal_, 1u);
  }
  (void)Store(/*again=*/true);
}

RingGate::Way RingGate::Try(SignalStore store) {
  const auto create = reinterpret_cast<decltype(&::hsa_signal_create)>(
      LoadAcquire(&root_.core->slots[kCoreSignalCreate]));
  const auto destroy = reinterpret_cast<decltype(&::hsa_signal_destroy)>(
      LoadAcquire(&root_.core->slots[kCoreSignalDestroy]));
  // One of the runtime's signals, since other functions may read it.
  hsa_signal_t signal = {};
  if (create == nullptr || destroy == nullptr ||
      create(1, 0, nullptr, &signal) != HSA_STATUS_SUCCESS) {
    return Way::kUnknown;
  }
  StoreRelaxed(&probe_seen_, 0u);
  StoreRelease(&probe_, signal.handle);
  store(signal, 0);
  StoreRelease(&probe_, uint64_t{UINT64_MAX});
  (void)destroy(signal);
  return LoadAcquire(&probe_seen_) != 0 ? Way::kReached : Way::kPassed;
}

// The SDK's function may have been stored above ours, or above the runtime's after
// those were restored. Ours may only be stored above it in the second case: otherwise
// the two would call each other forever.
template <auto kStore>
bool RingGate::StoreIsReached(CoreSlot slot, const void** there) {
  void** entry = &root_.core->slots[slot];
  const SignalStore ours = &GateHooks::Store<kStore>;
  const auto store = reinterpret_cast<SignalStore>(LoadAcquire(entry));
  *there = reinterpret_cast<const void*>(store);
  if (store == ours) return true;
  if (store == nullptr) return false;
  const Way way = Try(store);
  if (way != Way::kPassed || store != first_.*kStore) return way == Way::kReached;
  StoreRelease(&(next_.*kStore), store);
  StoreRelease(entry, reinterpret_cast<void*>(ours));
  *there = reinterpret_cast<const void*>(ours);
  return true;
}

bool RingGate::RingsAreReached() {
  if (!installed_) return false;
  StoreAgain();
  using N = Next;
  return StoreIsReached<&N::signal_store_relaxed>(kCoreSignalStoreRelaxed,
                                                  &reached_[0]) &&
         StoreIsReached<&N::signal_store_screlease>(kCoreSignalStoreScrelease,
                                                    &reached_[1]) &&
         StoreIsReached<&N::signal_silent_store_relaxed>(kCoreSignalSilentStoreRelaxed,
                                                         &reached_[2]) &&
         StoreIsReached<&N::signal_silent_store_screlease>(
             kCoreSignalSilentStoreScrelease, &reached_[3]);
}

bool RingGate::RingsAreStillReached() const {
  constexpr CoreSlot kSlots[] = {kCoreSignalStoreRelaxed, kCoreSignalStoreScrelease,
                                 kCoreSignalSilentStoreRelaxed,
                                 kCoreSignalSilentStoreScrelease};
  for (uint32_t i = 0; i < 4; ++i) {
    if (LoadAcquire(&root_.core->slots[kSlots[i]]) != reached_[i]) return false;
  }
  return true;
}

// There are no test calls for copies: each entry must contain our function.
bool RingGate::CopiesAreReached() {
  if (!installed_) return false;
  StoreAgain();
  using H = GateHooks;
  const ApiTable* amd = root_.amd_ext;
  return IsOurs(amd, slots_.memory_async_copy, &H::AsyncCopy) &&
         IsOurs(amd, slots_.memory_async_copy_on_engine, &H::AsyncCopyOnEngine) &&
         IsOurs(amd, slots_.memory_async_copy_rect, &H::AsyncCopyRect) &&
         IsOurs(amd, slots_.memory_async_batch_copy, &H::AsyncBatchCopy);
}

const char* RingGate::Store(bool again) {
  ApiTable* core = root_.core;
  ApiTable* amd = root_.amd_ext;
  const AmdSlots& slots = slots_;
  using H = GateHooks;
  using N = Next;
  bool whole =
      Swap<&N::signal_store_relaxed>(core, kCoreSignalStoreRelaxed,
                                     &H::Store<&N::signal_store_relaxed>, again) &&
      Swap<&N::signal_store_screlease>(core, kCoreSignalStoreScrelease,
                                       &H::Store<&N::signal_store_screlease>, again) &&
      Swap<&N::signal_silent_store_relaxed>(core, kCoreSignalSilentStoreRelaxed,
                                            &H::Store<&N::signal_silent_store_relaxed>,
                                            again) &&
      Swap<&N::signal_silent_store_screlease>(
          core, kCoreSignalSilentStoreScrelease,
          &H::Store<&N::signal_silent_store_screlease>, again) &&
      Swap<&N::queue_create>(core, kCoreQueueCreate, &H::QueueCreate, again) &&
      Swap<&N::queue_destroy>(core, kCoreQueueDestroy, &H::QueueDestroy, again) &&
      Swap<&N::memory_async_copy>(amd, slots.memory_async_copy, &H::AsyncCopy, again) &&
      Swap<&N::memory_async_copy_on_engine>(amd, slots.memory_async_copy_on_engine,
                                            &H::AsyncCopyOnEngine, again) &&
      Swap<&N::memory_async_copy_rect>(amd, slots.memory_async_copy_rect,
                                       &H::AsyncCopyRect, again) &&
      Swap<&N::memory_async_batch_copy>(amd, slots.memory_async_batch_copy,
                                        &H::AsyncBatchCopy, again) &&
      Swap<&N::amd_queue_create>(amd, slots.queue_create, &H::AmdCreate, again);
  // The program's number of hsa_init calls is only known if we saw it from the start.
  if (whole && from_start_) {
    if (!again) {
      users_ = 1;
      kept_open_ = false;
    }
    whole = Swap<&N::init>(core, kCoreInit, &H::Init, again) &&
            Swap<&N::shut_down>(core, kCoreShutDown, &H::ShutDown, again);
  }
  return whole ? nullptr : "the runtime's API table has a null entry";
}

}  // namespace rocattach::collector
