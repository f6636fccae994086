// The gate for doorbells, above a profiler that is made of a few fakes.
#include "userspace/collector/hsa/ring_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/unit/collector/hsa/gated_runtime.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kOther = 0x2000;  // no doorbell
constexpr uint64_t kSecond = 1'000'000'000;

using RingGateTest = GatedRuntime;

TEST_F(RingGateTest, RingsWaitAndOtherSignalsDoNot) {
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  std::atomic<bool> rung{false};
  std::thread ringer([&] {
    Ring(kDoorbell);
    rung = true;
  });
  Ring(kOther);
  EXPECT_EQ(runtime_.stores, 1);
  usleep(20'000);
  EXPECT_FALSE(rung);
  g_ring_gate.OpenRings();
  ringer.join();
  EXPECT_EQ(runtime_.stores, 2);
}

TEST_F(RingGateTest, AThreadInsideTheProfilerIsWaitedFor) {
  runtime_.stay = true;
  std::thread ringer([&] { Ring(kDoorbell); });
  while (runtime_.stores == 0) sched_yield();
  EXPECT_FALSE(g_ring_gate.HoldRings(20'000'000, &unfinished_));
  EXPECT_EQ(unfinished_, 0u) << "nothing is known to be in flight";
  std::thread leaver([&] {
    usleep(20'000);
    runtime_.stay = false;
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
  runtime_.no_thread = true;
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
  EXPECT_EQ(runtime_.copies, 1) << "held";
  g_ring_gate.OpenCopies();
  copier.join();
  Copy(0);  // nothing to copy
  EXPECT_EQ(g_ring_gate.copies_submitted(), 1u);
  EXPECT_EQ(runtime_.copies, 3);
}

// As if it were shut down: but the runtime is not told.
TEST_F(RingGateTest, TheRuntimeIsKeptOpen) {
  auto init = Call<decltype(&hsa_init)>(kCoreInit);
  auto shut_down = Call<decltype(&hsa_shut_down)>(kCoreShutDown);
  EXPECT_EQ(init(), HSA_STATUS_SUCCESS);  // the second user
  EXPECT_EQ(shut_down(), HSA_STATUS_SUCCESS);
  EXPECT_EQ(runtime_.shut_downs, 1);
  EXPECT_EQ(shut_down(), HSA_STATUS_SUCCESS);  // the last one
  EXPECT_EQ(runtime_.shut_downs, 1);
  EXPECT_EQ(shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
  EXPECT_EQ(init(), HSA_STATUS_SUCCESS);
  EXPECT_EQ(runtime_.inits, 1);
  EXPECT_EQ(shut_down(), HSA_STATUS_SUCCESS);
  EXPECT_EQ(runtime_.shut_downs, 1);
}

TEST_F(RingGateTest, ATableThatIsNotUnderstoodIsLeftAsItIs) {
  ApiTableRoot root = {{3, sizeof(ApiTableRoot), 0, 0}, core(), amd()};
  void* before = core()->slots[kCoreSignalStoreRelaxed];
  EXPECT_NE(g_ring_gate.Install(root, AmdSlots(), true), nullptr);
  EXPECT_EQ(core()->slots[kCoreSignalStoreRelaxed], before);
}

void StoreAbove(hsa_signal_t signal, hsa_signal_value_t value);
std::atomic<int> stores_above{0};
decltype(&::hsa_signal_store_relaxed) gate_store = nullptr;
void StoreAbove(hsa_signal_t signal, hsa_signal_value_t value) {
  ++stores_above;
  gate_store(signal, value);
}

// The SDK of 2026 may restore the tables at any time, and wrap them again.
TEST_F(RingGateTest, HoldsAlsoWhereTheTablesWerePutBack) {
  core()->slots[kCoreSignalStoreRelaxed] = reinterpret_cast<void*>(&StoreBelow);
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  std::atomic<bool> rung{false};
  std::thread ringer([&] {
    Ring(kDoorbell);
    rung = true;
  });
  usleep(20'000);
  EXPECT_FALSE(rung);
  g_ring_gate.OpenRings();
  ringer.join();
  EXPECT_EQ(runtime_.stores, 1);
}

// One that somebody else has put above ours stays, and ours is not stored above it: the
// two would call each other for ever.
TEST_F(RingGateTest, AToolAboveStaysThere) {
  void*& slot = core()->slots[kCoreSignalStoreRelaxed];
  gate_store = reinterpret_cast<decltype(gate_store)>(slot);
  slot = reinterpret_cast<void*>(&StoreAbove);
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  EXPECT_EQ(slot, reinterpret_cast<void*>(&StoreAbove));
  g_ring_gate.OpenRings();
  Ring(kDoorbell);
  EXPECT_EQ(stores_above, 1);
  EXPECT_EQ(runtime_.stores, 1);
}

}  // namespace
}  // namespace rocattach::collector
