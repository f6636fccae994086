// Holds doorbells and copies above rocprofiler-sdk while its services are switched.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_RING_GATE_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_RING_GATE_H_

#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>

#include "userspace/collector/common/sleeping_lock.h"
#include "userspace/collector/hsa/api_tables.h"
#include "userspace/collector/hsa/counter_table.h"
#include "userspace/collector/hsa/elf_object.h"
#include "userspace/collector/hsa/functions.h"
#include "userspace/collector/hsa/gate.h"

namespace rocattach::collector {

// The SDK counts a dispatch as started before it checks whether it has to wait for a
// start or a stop of counting. A switch at that moment waits for a packet that is
// queued behind it, and the program hangs. So counting is only switched while no
// dispatch is anywhere between the application and the dispatch's end:
//   1. Our functions are in the runtime's tables above the SDK's. The gate for
//      doorbells is closed, and all threads that have passed it return from the SDK.
//   2. Dispatches in flight end, as the SDK's own callbacks report.
//   3. The SDK's handler of the last dispatch ends: we know it when one of ours has run
//      after it, on the same thread of the runtime.
//   4. Counting is switched, and the gate opens.
// All steps share one time limit. When it expires, the gate
// opens, and nothing is switched.
//
// The gate for copies is closed in the same way, but only for an instant, so that
// copies submitted before and after it can be told apart.
class RingGate {
 public:
  // Called in the callback in which the SDK presents the tables, with its functions in
  // them. Returns nullptr, or the reason why ours cannot be there. `from_start`: no
  // queue exists yet; otherwise every signal may be a doorbell.
  const char* Install(const ApiTableRoot& root, const AmdSlots& slots, bool from_start);
  bool installed() const { return installed_; }

  // The SDK announces and completes dispatches; `queue` is its own number of the queue.
  void DispatchBegun(uint64_t queue);
  void DispatchOver(uint64_t queue);
  uint32_t Unfinished() const {
    return in_flight_.Sum() + __atomic_load_n(&in_flight_elsewhere_, __ATOMIC_SEQ_CST);
  }

  // The SDK may put the runtime's tables back as they were, and its functions into them
  // again, at any time. Stores ours again where the function that they called, or the
  // runtime's own, is there instead. Any other function may call ours, or what was
  // there before: a test call shows which. False if calls do not come through the
  // gates, or if that cannot be determined.
  bool RingsAreReached();
  bool CopiesAreReached();

  // True: no dispatch is in flight, and none begins until OpenRings(). Otherwise
  // `unfinished` are in flight, and the gate is open; or RingsAreReached() is false.
  bool HoldRings(uint64_t limit_ns, uint32_t* unfinished);
  void OpenRings() { rings_.Open(); }
  // At the end of the process: no dispatch enters the SDK for this time.
  void CloseRingsFor(uint64_t ns) { rings_.Close(Gate::kClosing, BootNs() + ns); }
  // `abandon`: HoldRings() gives up, now or when it is called; false ends that.
  void Abandon(bool abandon) { StoreRelease(&abandoned_, abandon ? 1u : 0u); }

  // To be called every few milliseconds for as long as anything is in flight.
  //
  // The runtime's thread that calls handlers of HSA signals can miss a registration.
  // The registering thread stores to a signal that the runtime's thread waits for, and
  // then checks whether that thread sleeps. Up to HSA runtime 1.18 at least, nothing
  // keeps the processor from checking first, so that the sleeping thread may see
  // neither the store nor a wake-up. The SDK registers a handler for every copy and
  // every dispatch, and completes a copy for the program there: a program that waits
  // for it hangs. By now that store is visible; another registration wakes the thread.
  void WakeRuntime();

  // True: no thread is submitting a copy, and none does until OpenCopies(). Otherwise
  // the gate is open, or CopiesAreReached() is false.
  bool HoldCopies(uint64_t limit_ns);
  void OpenCopies() { copies_.Open(); }
  // Copies that are submitted from now on are counted, or not.
  void CountCopies(bool on) { StoreRelease(&count_copies_, on ? 1u : 0u); }
  uint64_t copies_submitted() const { return LoadAcquire(&copies_submitted_); }
  uint32_t copies_inside() const { return LoadAcquire(&inside_copies_); }

  // `call` is called after each hsa_init and hsa_shut_down that is kept from the
  // runtime, and so from the SDK. To be set before Install().
  using KeptCall = void (*)(void* data, bool init, uint64_t begin_ns);
  void OnKeptCall(KeptCall call, void* data) {
    kept_call_ = call;
    kept_call_data_ = data;
  }

  // In a forked child, whose tables have our functions: nothing is held there.
  void StartAnewInChild();

 private:
  friend struct GateHooks;

  // The functions that ours call: those that were in the tables.
  struct Next {
    decltype(&::hsa_init) init;
    decltype(&::hsa_shut_down) shut_down;
    decltype(&::hsa_queue_create) queue_create;
    decltype(&::hsa_queue_destroy) queue_destroy;
    decltype(&::hsa_signal_store_relaxed) signal_store_relaxed;
    decltype(&::hsa_signal_store_screlease) signal_store_screlease;
    decltype(&::hsa_signal_silent_store_relaxed) signal_silent_store_relaxed;
    decltype(&::hsa_signal_silent_store_screlease) signal_silent_store_screlease;
    decltype(&::hsa_amd_async_function) async_function;
    decltype(&::hsa_amd_memory_async_copy) memory_async_copy;
    AsyncCopyOnEngine memory_async_copy_on_engine;
    decltype(&::hsa_amd_memory_async_copy_rect) memory_async_copy_rect;
    AsyncBatchCopy memory_async_batch_copy;
    AmdQueueCreate amd_queue_create;
  };
  // If a thread hangs and never ends its hold, the hold ends this long after its limit.
  static constexpr uint64_t kLongestSwitchNs = 10'000'000'000;

  // The counter of threads inside a ring for this signal; nullptr if not a doorbell.
  uint32_t* InsideOf(uint64_t signal) {
    uint32_t* inside = doorbells_.Find(signal);
    if (Likely(inside != nullptr)) return inside;
    return LoadRelaxed(&any_signal_) != 0 ? &inside_others_ : nullptr;
  }
  void AddDoorbell(uint64_t signal) {
    if (doorbells_.FindOrAdd(signal) == nullptr) StoreRelease(&any_signal_, 1u);
  }
  uint32_t* InFlightOf(uint64_t queue) {
    uint32_t* in_flight = in_flight_.FindOrAdd(queue + 1);  // numbers begin at 0
    return Likely(in_flight != nullptr) ? in_flight : &in_flight_elsewhere_;
  }
  void QueueGone(const hsa_queue_t* queue, uint64_t id);
  bool AnyoneInside() const {
    return doorbells_.Sum() + __atomic_load_n(&inside_others_, __ATOMIC_SEQ_CST) != 0;
  }
  // True once the runtime's signal thread has ended everything that it was doing.
  bool Fence(uint64_t end_ns);
  static void OnFence(void* self);

  // Stores our function in one entry of a table, unless the function there may already
  // call ours. `again`: ours has been stored in the entry before.
  template <auto kMember, typename F>
  bool Swap(ApiTable* table, uint32_t slot, F ours, bool again);
  const char* Store(bool again);
  void StoreAgain();
  // Result of a test call: our function was reached, was bypassed, or it is not known.
  enum class Way { kReached, kPassed, kUnknown };
  using SignalStore = void (*)(hsa_signal_t signal, hsa_signal_value_t value);
  Way Try(SignalStore store);
  // Sets the flag that our function was called for the signal that Try() stores to.
  bool Probed() {
    StoreRelease(&probe_seen_, 1u);
    return true;
  }
  template <auto kStore>
  bool StoreIsReached(CoreSlot slot, const void** there);
  // True if the entries are still as RingsAreReached() has found them.
  bool RingsAreStillReached() const;

  Gate rings_, copies_;
  Next next_ = {};
  Next first_ = {};  // the profiler's functions, as presented
  uint64_t probe_ =
      UINT64_MAX;  // our test signal: stores to it only show that calls reach us
  uint32_t probe_seen_ = 0;
  const void* reached_[4] = {};  // the stores in the table, as of RingsAreReached()
  ApiTableRoot root_ = {};
  AmdSlots slots_;
  ElfObject runtime_;  // empty if the tables are in no library
  bool from_start_ = false;
  bool installed_ = false;
  uint32_t abandoned_ = 0;
  uint32_t any_signal_ = 0;     // every signal may be a doorbell
  uint32_t inside_others_ = 0;  // threads in stores to signals not known as doorbells
  uint32_t fences_wanted_ = 0, fences_done_ = 0;
  alignas(64) uint32_t inside_copies_ = 0;
  uint32_t count_copies_ = 0;
  uint64_t copies_submitted_ = 0;
  alignas(64) uint64_t begun_ = 0;

  // hsa_init and hsa_shut_down.
  SleepingLock life_lock_;
  uint32_t users_ = 0;
  bool kept_open_ = false;
  KeptCall kept_call_ = nullptr;
  void* kept_call_data_ = nullptr;

  CounterTable doorbells_;  // threads inside a ring, by the doorbell's signal
  CounterTable in_flight_;  // dispatches, by the SDK's number of the queue plus 1
  uint32_t in_flight_elsewhere_ = 0;  // dispatches of queues not in the table
};

extern RingGate g_ring_gate;

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_RING_GATE_H_
