// The gate for doorbells, above a fake profiler of a few functions.
#include "userspace/collector/hsa/ring_gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "tests/await.h"
#include "tests/unit/collector/hsa/gated_runtime.h"
#include "tests/unit/collector/hsa/table_runtime/table_runtime.h"
#include "userspace/collector/hsa/live_table.h"

namespace rocattach::collector {
namespace {

constexpr uint64_t kOther = 0x2000;  // not a doorbell
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
  testing_support::Await([&] { return runtime_.stores != 0; }, "the ring");
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

// Otherwise no session could ever start again.
TEST_F(RingGateTest, DispatchesOfADestroyedQueueAreNotInFlight) {
  g_ring_gate.DispatchBegun(queue_->id);
  g_ring_gate.DispatchBegun(reinterpret_cast<uint64_t>(queue_));
  g_ring_gate.DispatchBegun(8);
  Call<decltype(&hsa_queue_destroy)>(kCoreQueueDestroy)(queue_);
  EXPECT_EQ(g_ring_gate.Unfinished(), 1u);
  g_ring_gate.DispatchOver(queue_->id);  // too late
  EXPECT_EQ(g_ring_gate.Unfinished(), 1u);
}

// The SDK's handler of the last dispatch may still be running.
TEST_F(RingGateTest, AHoldWaitsForTheRuntimesThread) {
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

TEST_F(RingGateTest, CopiesAreCountedWhileCountingIsOn) {
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

// For the program it is shut down, but the runtime's function is not called.
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

// The SDK releases of 2026 may restore the tables at any time, and wrap them again.
TEST_F(RingGateTest, HoldsRingsAfterTheTablesWerePutBack) {
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

// A function that another tool has put above ours stays, and ours is not stored above
// it: the two would call each other for ever.
TEST_F(RingGateTest, AToolAboveStaysThere) {
  void*& slot = core()->slots[kCoreSignalStoreRelaxed];
  gate_store = reinterpret_cast<decltype(gate_store)>(slot);
  slot = reinterpret_cast<void*>(&StoreAbove);
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  EXPECT_EQ(slot, reinterpret_cast<void*>(&StoreAbove));
  g_ring_gate.OpenRings();
  EXPECT_EQ(runtime_.stores, 0) << "what was tried has gone no further than to ours";
  const int before = stores_above;
  Ring(kDoorbell);
  EXPECT_EQ(stores_above, before + 1);
  EXPECT_EQ(runtime_.stores, 1);
}

void StorePast(hsa_signal_t, hsa_signal_value_t) {}

// A function stored after the tables were restored calls what was in them then, not us.
TEST_F(RingGateTest, NothingIsHeldWhereCallsGoPastTheGate) {
  core()->slots[kCoreSignalStoreScrelease] = reinterpret_cast<void*>(&StorePast);
  EXPECT_FALSE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  EXPECT_FALSE(g_ring_gate.RingsAreReached());
  EXPECT_EQ(core()->slots[kCoreSignalStoreScrelease],
            reinterpret_cast<void*>(&StorePast));
  Ring(kDoorbell);  // the gate is open
  EXPECT_EQ(runtime_.stores, 1);
  EXPECT_TRUE(g_ring_gate.HoldCopies(kSecond));
  g_ring_gate.OpenCopies();
}

// Nor is anything reported as held if the way through the gate cannot be tested.
TEST_F(RingGateTest, NothingIsHeldIfTheGateCannotBeTested) {
  core()->slots[kCoreSignalStoreRelaxed] = reinterpret_cast<void*>(&StorePast);
  core()->slots[kCoreSignalCreate] = nullptr;
  EXPECT_FALSE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  void*& copy = amd()->slots[kCopySlot];
  copy = reinterpret_cast<void*>(&StorePast);
  EXPECT_FALSE(g_ring_gate.HoldCopies(kSecond));
}

// A profiler with a function in a runtime's tables; `wrapped_` is what it calls.
class WrappedTables : public testing::Test {
 protected:
  void SetUp() override {
    g_runtime = &below_;
    wrapped_ = nullptr;
    g_process.guard.Arm();
    g_ring_gate.StartAnewInChild();
    ASSERT_TRUE(runtime_.loaded()) << dlerror();
    ASSERT_STREQ(FindLiveTables(runtime_.window(), &tables_), nullptr);
    ApiTable* core = tables_.root.core;
    core->slots[kCoreSignalCreate] = reinterpret_cast<void*>(&CreateSignalBelow);
    slot() = reinterpret_cast<void*>(&Wrapper);
    ASSERT_EQ(g_ring_gate.Install(tables_.root, tables_.slots, /*from_start=*/true),
              nullptr);
    ours_ = slot();
    // The profiler takes its function out, and ours is above the runtime's.
    slot() = runtime_.function();
    ASSERT_TRUE(g_ring_gate.RingsAreReached());
    ASSERT_EQ(slot(), ours_);
  }
  void TearDown() override {
    g_ring_gate.OpenRings();
    g_runtime = nullptr;
    for (ApiTable* table : {tables_.root.core, tables_.root.amd_ext}) {
      const uint32_t entries = (table->version.minor_id - 16) / 8;
      for (uint32_t i = 0; i < entries; ++i) table->slots[i] = runtime_.function();
    }
  }

  static void Wrapper(hsa_signal_t signal, hsa_signal_value_t value) {
    if (wrapped_ != nullptr) return wrapped_(signal, value);
    ++g_runtime->stores;
  }
  void*& slot() { return tables_.root.core->slots[kCoreSignalStoreRelaxed]; }

  const TableRuntime runtime_{"640"};
  LiveTables tables_ = {};
  FakeRuntime below_;
  void* ours_ = nullptr;
  uint32_t unfinished_ = 0;
  static inline decltype(&::hsa_signal_store_relaxed) wrapped_ = nullptr;
};

TEST_F(WrappedTables, OursAreStoredAboveAWrapperThatDoesNotCallThem) {
  slot() = reinterpret_cast<void*>(&Wrapper);
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  EXPECT_EQ(slot(), ours_);
  g_ring_gate.OpenRings();
  const int before = below_.stores;
  reinterpret_cast<decltype(&hsa_signal_store_relaxed)>(slot())({kOther}, 1);
  EXPECT_EQ(below_.stores, before + 1) << "ours calls it again";
}

// The two functions would call each other for ever.
TEST_F(WrappedTables, OursAreNotStoredAboveAWrapperThatCallsThem) {
  wrapped_ = reinterpret_cast<decltype(wrapped_)>(ours_);
  slot() = reinterpret_cast<void*>(&Wrapper);
  ASSERT_TRUE(g_ring_gate.HoldRings(kSecond, &unfinished_));
  EXPECT_EQ(slot(), reinterpret_cast<void*>(&Wrapper));
  g_ring_gate.OpenRings();
  reinterpret_cast<decltype(&hsa_signal_store_relaxed)>(slot())({kOther}, 1);
}

}  // namespace
}  // namespace rocattach::collector
