// The process's gate for doorbells and copies, above a fake profiler and a fake runtime
// of a few functions.
#ifndef ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_GATED_RUNTIME_H_
#define ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_GATED_RUNTIME_H_

#include <gtest/gtest.h>
#include <sched.h>
#include <stdint.h>

#include <atomic>
#include <thread>
#include <vector>

#include "userspace/collector/hsa/ring_gate.h"

namespace rocattach::collector {

inline constexpr uint64_t kDoorbell = 0x1000;

// The profiler and the runtime below the gate.
struct FakeRuntime {
  std::atomic<int> stores{0}, copies{0}, inits{0}, shut_downs{0};
  std::atomic<bool> stay{false};       // a ring stays inside the profiler
  std::atomic<bool> no_thread{false};  // the runtime's thread runs no handlers
  std::vector<std::thread> threads;
};
inline FakeRuntime* g_runtime = nullptr;

inline void StoreBelow(hsa_signal_t, hsa_signal_value_t) {
  ++g_runtime->stores;
  while (g_runtime->stay) sched_yield();
}

inline hsa_status_t CreateQueueBelow(hsa_agent_t, uint32_t, hsa_queue_type32_t,
                                     void (*)(hsa_status_t, hsa_queue_t*, void*), void*,
                                     uint32_t, uint32_t, hsa_queue_t** queue) {
  static hsa_queue_t made;
  made = {};
  made.id = 7;
  made.doorbell_signal.handle = kDoorbell;
  *queue = &made;
  return HSA_STATUS_SUCCESS;
}

// Creates a signal of the runtime; all of them have the same handle.
inline hsa_status_t CreateSignalBelow(hsa_signal_value_t, uint32_t, const hsa_agent_t*,
                                      hsa_signal_t* signal) {
  signal->handle = 0x3000;
  return HSA_STATUS_SUCCESS;
}

// The tables as the profiler presents them, with the gate above it. The process has one
// gate, because functions in a table have no argument for an object.
class GatedRuntime : public testing::Test {
 protected:
  void SetUp() override {
    g_runtime = &runtime_;
    g_process.guard.Arm();
    g_ring_gate.StartAnewInChild();
    auto set = [](ApiTable* table, uint32_t slot, auto function) {
      table->slots[slot] = reinterpret_cast<void*>(function);
    };
    core()->version = {2, kLeastCoreTableBytes, 0, 0};
    amd()->version = {2, 400, 0, 0};
    for (uint32_t slot :
         {kCoreSignalStoreRelaxed, kCoreSignalStoreScrelease,
          kCoreSignalSilentStoreRelaxed, kCoreSignalSilentStoreScrelease}) {
      set(core(), slot, &StoreBelow);
    }
    set(core(), kCoreSignalCreate, &CreateSignalBelow);
    set(
        core(), kCoreSignalDestroy, +[](hsa_signal_t) { return HSA_STATUS_SUCCESS; });
    set(core(), kCoreQueueCreate, &CreateQueueBelow);
    set(
        core(), kCoreQueueDestroy, +[](hsa_queue_t*) { return HSA_STATUS_SUCCESS; });
    set(
        core(), kCoreInit, +[] {
          ++g_runtime->inits;
          return HSA_STATUS_SUCCESS;
        });
    set(
        core(), kCoreShutDown, +[] {
          ++g_runtime->shut_downs;
          return HSA_STATUS_SUCCESS;
        });
    AmdSlots slots;
    slots.async_function = 8;
    slots.memory_async_copy = kCopySlot;
    slots.memory_async_copy_rect = 38;
    set(
        amd(), slots.async_function, +[](void (*run)(void*), void* argument) {
          if (!g_runtime->no_thread) g_runtime->threads.emplace_back(run, argument);
          return HSA_STATUS_SUCCESS;
        });
    auto copy = +[](void*, hsa_agent_t, const void*, hsa_agent_t, size_t, uint32_t,
                    const hsa_signal_t*, hsa_signal_t) {
      ++g_runtime->copies;
      return HSA_STATUS_SUCCESS;
    };
    set(amd(), slots.memory_async_copy, copy);
    set(amd(), slots.memory_async_copy_rect, copy);
    ApiTableRoot root = {{3, sizeof(ApiTableRoot), 0, 0}, core(), amd()};
    ASSERT_EQ(g_ring_gate.Install(root, slots, /*from_start=*/true), nullptr);
    hsa_queue_t* queue = nullptr;
    ASSERT_EQ(Call<decltype(&hsa_queue_create)>(kCoreQueueCreate)(
                  {}, 64, 0, nullptr, nullptr, 0, 0, &queue),
              HSA_STATUS_SUCCESS);
    queue_ = queue;
  }
  void TearDown() override {
    runtime_.stay = false;
    g_ring_gate.OpenRings();
    for (std::thread& thread : runtime_.threads) thread.join();
    g_runtime = nullptr;
  }

  ApiTable* core() { return reinterpret_cast<ApiTable*>(core_); }
  ApiTable* amd() { return reinterpret_cast<ApiTable*>(amd_); }
  template <typename F>
  F Call(uint32_t slot) {
    return reinterpret_cast<F>(core()->slots[slot]);
  }
  void Ring(uint64_t signal) {
    Call<decltype(&hsa_signal_store_relaxed)>(kCoreSignalStoreRelaxed)({signal}, 1);
  }
  hsa_status_t Copy(size_t bytes) {
    return reinterpret_cast<decltype(&hsa_amd_memory_async_copy)>(
        amd()->slots[kCopySlot])(nullptr, {}, nullptr, {}, bytes, 0, nullptr, {});
  }

  FakeRuntime runtime_;
  hsa_queue_t* queue_ = nullptr;
  uint32_t unfinished_ = 0;
  static constexpr uint32_t kCopySlot = 15;
  alignas(8) char core_[kLeastCoreTableBytes] = {};
  alignas(8) char amd_[400] = {};
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_TESTS_UNIT_COLLECTOR_HSA_GATED_RUNTIME_H_
