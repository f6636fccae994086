// The gate for doorbells, above a profiler that is made of a few fakes.
#include "userspace/collector/hsa/ring_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rocattach::collector {
namespace {

constexpr uint64_t kDoorbell = 0x1000, kOther = 0x2000;
constexpr uint64_t kSecond = 1'000'000'000;

// What stands below the gate.
struct Fake {
  std::atomic<int> stores{0}, copies{0}, inits{0}, shut_downs{0};
  std::atomic<bool> stay{false};       // a ring stays in the profiler
  std::atomic<bool> no_thread{false};  // the runtime's thread runs nothing
  std::vector<std::thread> threads;
};
Fake* g_fake = nullptr;

void Store(hsa_signal_t, hsa_signal_value_t) {
  ++g_fake->stores;
  while (g_fake->stay) sched_yield();
}

hsa_status_t CreateQueue(hsa_agent_t, uint32_t, hsa_queue_type32_t,
                         void (*)(hsa_status_t, hsa_queue_t*, void*), void*, uint32_t,
                         uint32_t, hsa_queue_t** queue) {
  static hsa_queue_t made;
  made = {};
  made.id = 7;
  made.doorbell_signal.handle = kDoorbell;
  *queue = &made;
  return HSA_STATUS_SUCCESS;
}

// The tables as the profiler presents them. The gate is one for the process, as the
// functions in a table get no object.
class RingGateTest : public testing::Test {
 protected:
  void SetUp() override {
    g_fake = &fake_;
    g_process.guard.Arm();
    g_ring_gate.StartAnewInChild();
    auto set = [](ApiTable* table, uint32_t slot, auto function) {
      table->slots[slot] = reinterpret_cast<void*>(function);
    };
    core()->version = {2, kCoreTableBytes, 0, 0};
    amd()->version = {2, 400, 0, 0};
    for (uint32_t slot :
         {kCoreSignalStoreRelaxed, kCoreSignalStoreScrelease,
          kCoreSignalSilentStoreRelaxed, kCoreSignalSilentStoreScrelease}) {
      set(core(), slot, &Store);
    }
    set(core(), kCoreQueueCreate, &CreateQueue);
    set(
        core(), kCoreQueueDestroy, +[](hsa_queue_t*) { return HSA_STATUS_SUCCESS; });
    set(
        core(), kCoreInit, +[] {
          ++g_fake->inits;
          return HSA_STATUS_SUCCESS;
        });
    set(
        core(), kCoreShutDown, +[] {
          ++g_fake->shut_downs;
          return HSA_STATUS_SUCCESS;
        });
    AmdSlots slots;
    set(
        amd(), slots.async_function, +[](void (*run)(void*), void* argument) {
          if (!g_fake->no_thread) g_fake->threads.emplace_back(run, argument);
          return HSA_STATUS_SUCCESS;
        });
    auto copy = +[](void*, hsa_agent_t, const void*, hsa_agent_t, size_t, uint32_t,
                    const hsa_signal_t*, hsa_signal_t) {
      ++g_fake->copies;
      return HSA_STATUS_SUCCESS;
    };
    set(amd(), slots.memory_async_copy, copy);
    set(amd(), slots.memory_async_copy_rect, copy);
    ApiTableRoot root = {{3, sizeof(ApiTableRoot), 0, 0}, core(), amd()};
    ASSERT_EQ(g_ring_gate.Install(&root, /*from_start=*/true), nullptr);
    hsa_queue_t* queue = nullptr;
    ASSERT_EQ(Call<decltype(&hsa_queue_create)>(kCoreQueueCreate)(
                  {}, 64, 0, nullptr, nullptr, 0, 0, &queue),
              HSA_STATUS_SUCCESS);
    queue_ = queue;
  }
  void TearDown() override {
    fake_.stay = false;
    g_ring_gate.OpenRings();
    for (std::thread& thread : fake_.threads) thread.join();
    g_fake = nullptr;
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
        amd()->slots[AmdSlots().memory_async_copy])(nullptr, {}, nullptr, {}, bytes, 0,
                                                    nullptr, {});
  }

  Fake fake_;
  hsa_queue_t* queue_ = nullptr;
  uint32_t unfinished_ = 0;
  alignas(8) char core_[kCoreTableBytes] = {};
  alignas(8) char amd_[400] = {};
};

TEST_F(RingGateTest, RingsWaitAndOtherSignalsDoNot) {
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  std::atomic<bool> rung{false};
  std::thread ringer([&] {
    Ring(kDoorbell);
    rung = true;
  });
  Ring(kOther);
  EXPECT_EQ(fake_.stores, 1);
  usleep(20'000);
  EXPECT_FALSE(rung);
  g_ring_gate.OpenRings();
  ringer.join();
  EXPECT_EQ(fake_.stores, 2);
}

TEST_F(RingGateTest, AThreadInsideTheProfilerIsWaitedFor) {
  fake_.stay = true;
  std::thread ringer([&] { Ring(kDoorbell); });
  while (fake_.stores == 0) sched_yield();
  EXPECT_FALSE(g_ring_gate.HoldRings(20'000'000, &unfinished_));
  EXPECT_EQ(unfinished_, 0u) << "nothing is known to be in flight";
  std::thread leaver([&] {
    usleep(20'000);
    fake_.stay = false;
  });
  EXPECT_TRUE(g_ring_gate.HoldRings(10 * kSecond, &unfinished_));
  g_ring_gate.OpenRings();
  ringer.join();
  leaver.join();
}

TEST_F(RingGateTest, DispatchesInFlightAreWaitedFor) {
  g_ring_gate.DispatchBegun(3);
  g_ring_gate.DispatchBegun(4);
  EXPECT_FALSE(g_ring_gate.HoldRings(20'000'000, &unfinished_));
  EXPECT_EQ(unfinished_, 2u);
  Ring(kDoorbell);  // the gate is open again
  g_ring_gate.DispatchOver(3);
  std::thread gpu([] {
    usleep(20'000);
    g_ring_gate.DispatchOver(4);
  });
  EXPECT_TRUE(g_ring_gate.HoldRings(10 * kSecond, &unfinished_));
  gpu.join();
}

// Or no session could ever start again.
TEST_F(RingGateTest, WhatIsLostWithItsQueueIsNotInFlight) {
  g_ring_gate.DispatchBegun(queue_->id);
  g_ring_gate.DispatchBegun(reinterpret_cast<uint64_t>(queue_));
  g_ring_gate.DispatchBegun(8);
  Call<decltype(&hsa_queue_destroy)>(kCoreQueueDestroy)(queue_);
  EXPECT_EQ(g_ring_gate.Unfinished(), 1u);
  g_ring_gate.DispatchOver(queue_->id);  // too late
  EXPECT_EQ(g_ring_gate.Unfinished(), 1u);
}

// The SDK's handler of the last dispatch may still be running.
TEST_F(RingGateTest, NothingIsQuietBeforeTheRuntimesThreadIs) {
  g_ring_gate.DispatchBegun(3);
  g_ring_gate.DispatchOver(3);
  fake_.no_thread = true;
  EXPECT_FALSE(g_ring_gate.HoldRings(20'000'000, &unfinished_));
}

TEST_F(RingGateTest, TheEndOfTheProcessEndsAHold) {
  g_ring_gate.DispatchBegun(3);
  std::thread end([] {
    usleep(20'000);
    g_ring_gate.Abandon(true);
  });
  const uint64_t begin = BootNs();
  EXPECT_FALSE(g_ring_gate.HoldRings(60 * kSecond, &unfinished_));
  EXPECT_LT(BootNs() - begin, 30 * kSecond);
  end.join();
}

TEST_F(RingGateTest, CopiesAreCountedWhileThatIsWanted) {
  Copy(8);
  ASSERT_TRUE(g_ring_gate.HoldCopies(kSecond));
  g_ring_gate.CountCopies(true);
  std::thread copier([&] { Copy(8); });
  usleep(10'000);
  EXPECT_EQ(fake_.copies, 1) << "held";
  g_ring_gate.OpenCopies();
  copier.join();
  Copy(0);  // nothing to copy
  EXPECT_EQ(g_ring_gate.copies_submitted(), 1u);
  EXPECT_EQ(fake_.copies, 3);
}

// As if it were shut down: but the runtime is not told.
TEST_F(RingGateTest, TheRuntimeIsKeptOpen) {
  auto init = Call<decltype(&hsa_init)>(kCoreInit);
  auto shut_down = Call<decltype(&hsa_shut_down)>(kCoreShutDown);
  EXPECT_EQ(init(), HSA_STATUS_SUCCESS);  // the second user
  EXPECT_EQ(shut_down(), HSA_STATUS_SUCCESS);
  EXPECT_EQ(fake_.shut_downs, 1);
  EXPECT_EQ(shut_down(), HSA_STATUS_SUCCESS);  // the last one
  EXPECT_EQ(fake_.shut_downs, 1);
  EXPECT_EQ(shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(init(), HSA_STATUS_SUCCESS);
  EXPECT_EQ(fake_.inits, 1);
  EXPECT_EQ(shut_down(), HSA_STATUS_SUCCESS);
  EXPECT_EQ(fake_.shut_downs, 1);
}

TEST_F(RingGateTest, AnUnknownTableIsLeftAsItIs) {
  amd()->version.minor_id = 408;
  ApiTableRoot root = {{3, sizeof(ApiTableRoot), 0, 0}, core(), amd()};
  void* before = core()->slots[kCoreSignalStoreRelaxed];
  EXPECT_NE(g_ring_gate.Install(&root, true), nullptr);
  EXPECT_EQ(core()->slots[kCoreSignalStoreRelaxed], before);
}

}  // namespace
}  // namespace rocattach::collector
