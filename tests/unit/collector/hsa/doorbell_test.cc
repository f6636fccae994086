#include "userspace/collector/hsa/doorbell.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "tests/unit/collector/hsa/doorbell_fixture.h"
#include "tests/unit/collector/hsa/fake_hsa.h"

namespace rocattach::collector {
namespace {

TEST_F(DoorbellTest, RecordsADispatchWithTimes) {
  Launch();
  EXPECT_EQ(f_.Inflight(), 1);
  ASSERT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  const rocattach_dispatch& r = records[0];
  EXPECT_EQ(r.flags, 0);
  EXPECT_EQ(r.kernel_id, 5u);
  EXPECT_EQ(r.correlation_id, 1u);
  EXPECT_EQ(r.end_ns - r.start_ns, 5000u);
  EXPECT_EQ(r.end_ns, gpu_.now() + 1'000'000'000);
  EXPECT_EQ(r.tid, static_cast<uint32_t>(gettid()));
  EXPECT_EQ(r.grid_x, 1024u);
  EXPECT_EQ(r.workgroup_x, 64);
  EXPECT_EQ(r.lds_bytes, 16u);
  EXPECT_EQ(r.scratch_bytes, 32u);
  EXPECT_EQ(r.queue_id, 1u);
  EXPECT_EQ(r.agent_id, 2);
  EXPECT_EQ(r.packet_index, 0u);
  EXPECT_EQ(f_.Inflight(), 0);
  EXPECT_EQ(f_.memory.inflight(0)->kind, 0u);
}

TEST(DoorbellHarvestTest, RingsPublishFinishedDispatchesInBatches) {
  CaptureFixture f;
  f.kernels.Insert(kKernel, 5);
  FakeGpu gpu(64);
  RingHandle ring = f.rings.Mine();
  auto launch = [&] {
    uint64_t index = gpu.Reserve();
    gpu.Write(index, kKernel);
    f.doorbell.Ring(&gpu.queue(), static_cast<int64_t>(index), &ring);
    return index;
  };
  for (int i = 0; i < 15; ++i) launch();
  gpu.Run(10);
  EXPECT_EQ(f.Inflight(), 15);
  // It has finished, but the packet processor reports its progress late.
  auto* signal =
      reinterpret_cast<amd_signal_t*>(gpu.packet(10).completion_signal.handle);
  signal->start_ts = gpu.now();
  signal->end_ts = gpu.now() + 10;
  signal->value = 0;
  launch();
  EXPECT_EQ(f.Inflight(), 6);
  f.Harvest(&gpu.queue());
  EXPECT_EQ(f.Inflight(), 5);
  EXPECT_EQ(AllDispatches(f.memory).size(), 11u);
  EXPECT_EQ(f.Sum(&rocattach_ring::dispatches_untimed), 0u);
}

TEST_F(DoorbellTest, ManyTimesAroundTheQueue) {
  for (int i = 0; i < 200; ++i) {
    Launch();
    gpu_.Run();
    StoreRelease(&f_.memory.ring(0)->tail, LoadAcquire(&f_.memory.ring(0)->head));
  }
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 200u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_untimed), 0u);
  // One of the records is the clock relation.
  EXPECT_EQ(f_.Sum(&rocattach_ring::head), 201u);
  EXPECT_EQ(f_.Inflight(), 0);
}

TEST_F(DoorbellTest, OneRingForABatch) {
  for (int i = 0; i < 5; ++i) gpu_.Write(gpu_.Reserve(), kKernel);
  f_.doorbell.Ring(&gpu_.queue(), 4, &ring_);
  EXPECT_EQ(gpu_.rings(), std::vector<uint64_t>{4});
  EXPECT_EQ(gpu_.Run(), 5u);
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(AllDispatches(f_.memory).size(), 5u);
}

TEST_F(DoorbellTest, ALaterProducerWaitsForAnEarlierPacket) {
  uint64_t first = gpu_.Reserve();
  uint64_t second = gpu_.Reserve();
  gpu_.Write(second, kKernel);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(second), &ring_);
  EXPECT_TRUE(gpu_.rings().empty());
  EXPECT_EQ(gpu_.queue().deferred, 1u);
  gpu_.Write(first, kKernel);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(first), &ring_);
  EXPECT_EQ(gpu_.rings(), std::vector<uint64_t>{second});
  EXPECT_EQ(gpu_.queue().deferred, 0u);
  EXPECT_EQ(gpu_.Run(), 2u);
  f_.Harvest(&gpu_.queue());
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].flags | records[1].flags, 0);
}

TEST_F(DoorbellTest, TheWorkerForwardsARingBehindAnUnrungPacket) {
  uint64_t first = gpu_.Reserve();
  uint64_t second = gpu_.Reserve();
  gpu_.Write(second, kKernel);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(second), &ring_);
  gpu_.Write(first, kKernel);  // its producer writes the doorbell's register itself
  ASSERT_TRUE(gpu_.queue().lock.TryLock());
  f_.doorbell.Serve(&gpu_.queue(), &ring_);
  f_.doorbell.Leave(&gpu_.queue(), &ring_);
  EXPECT_EQ(gpu_.rings(), std::vector<uint64_t>{second});
  EXPECT_EQ(f_.Inflight(), 2);
}

TEST_F(DoorbellTest, ADeferredRingIsNotLostWhenRecordingStops) {
  uint64_t first = gpu_.Reserve();
  uint64_t second = gpu_.Reserve();
  gpu_.Write(second, kKernel);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(second), &ring_);
  gpu_.Write(first, kKernel);
  f_.doorbell.RingIdle(&gpu_.queue(), static_cast<int64_t>(first),
                       f_.hsa.signal_store_screlease);
  EXPECT_EQ(gpu_.rings(), (std::vector<uint64_t>{second, first}));
  EXPECT_EQ(gpu_.RunUnrung(), 2u);
}

TEST_F(DoorbellTest, RecordingStartsWithTheNextRing) {
  for (int i = 0; i < 3; ++i) {
    uint64_t index = gpu_.Reserve();
    gpu_.Write(index, kKernel);
    f_.doorbell.RingIdle(&gpu_.queue(), static_cast<int64_t>(index),
                         f_.hsa.signal_store_screlease);
  }
  EXPECT_EQ(gpu_.Run(2), 2u);  // the third is still waiting
  EXPECT_EQ(Launch(), 3u);
  gpu_.Run();
  f_.Harvest(&gpu_.queue());
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].packet_index, 3u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 1u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 0u);
}

// Graphs ring once for several packets. The GPU could not see any of them before.
TEST_F(DoorbellTest, TheFirstRingMayBeForSeveralPackets) {
  uint64_t index = 0;
  const auto launch_unrung = [&](int packets) {
    for (int i = 0; i < packets; ++i) {
      index = gpu_.Reserve();
      gpu_.Write(index, kKernel);
    }
  };
  for (const bool consumed : {false, true}) {
    launch_unrung(2);
    f_.doorbell.RingIdle(&gpu_.queue(), static_cast<int64_t>(index),
                         f_.hsa.signal_store_screlease);
    if (consumed) gpu_.Run();
    launch_unrung(3);
    f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
    gpu_.Run();
    f_.Harvest(&gpu_.queue());
  }
  std::vector<uint64_t> recorded;
  for (const rocattach_dispatch& d : AllDispatches(f_.memory)) {
    recorded.push_back(d.packet_index);
    EXPECT_LT(d.start_ns, d.end_ns);
  }
  EXPECT_EQ(recorded, (std::vector<uint64_t>{2, 3, 4, 7, 8, 9}));
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 6u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 0u);
}

// Packets that the GPU has run without a ring through us are from before the recording.
TEST_F(DoorbellTest, PacketsThatRanBeforeTheFirstRingAreNotRecorded) {
  for (int i = 0; i < 3; ++i) gpu_.Write(gpu_.Reserve(), kKernel);
  gpu_.RunUnrung();
  const uint64_t index = gpu_.Reserve();
  gpu_.Write(index, kKernel);
  gpu_.queue().idled = 1;
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
  gpu_.Run();
  f_.Harvest(&gpu_.queue());
  const auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].packet_index, 3u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 0u);
}

TEST_F(DoorbellTest, TheApplicationsSignalIsLeftAlone) {
  amd_signal_t signal = {};
  signal.kind = AMD_SIGNAL_KIND_USER;
  signal.value = 1;
  signal.start_ts = 7;
  signal.end_ts = 8;
  uint64_t index = Launch(&signal);
  EXPECT_EQ(gpu_.packet(index).completion_signal.handle,
            reinterpret_cast<uint64_t>(&signal));
  EXPECT_EQ(signal.start_ts, 7u);
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Inflight(), 1);
  gpu_.Run();
  EXPECT_EQ(signal.value, 0);
  f_.Harvest(&gpu_.queue());
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].flags, ROCATTACH_DISPATCH_APP_SIGNAL);
  EXPECT_EQ(records[0].end_ns - records[0].start_ns, 5000u);
}

TEST_F(DoorbellTest, TimesAreReadBeforeABarrierReusesTheSignal) {
  amd_signal_t signal = {};
  signal.value = 1;
  Launch(&signal);
  gpu_.Run();
  signal.value = 1;
  uint64_t barrier = gpu_.Reserve();
  gpu_.WriteBarrier(barrier, &signal);
  // Nothing is harvested in between: this checks the tracking itself.
  AqlPacket takes_over = {};
  takes_over.any.header = HSA_PACKET_TYPE_BARRIER_AND;
  takes_over.words[7] = reinterpret_cast<uint64_t>(&signal);
  f_.capture.Barrier(takes_over);
  EXPECT_EQ(f_.tracker.app_signals().tracked(), 0u);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(barrier), &ring_);
  gpu_.Run();
  f_.Harvest(&gpu_.queue());
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].end_ns - records[0].start_ns, 5000u);
}

TEST_F(DoorbellTest, AFullTablePublishesWithoutTimes) {
  FakeGpu gpu(256);
  for (int i = 0; i < 200; ++i) {
    uint64_t index = gpu.Reserve();
    gpu.Write(index, kKernel);
    f_.doorbell.Ring(&gpu.queue(), static_cast<int64_t>(index), &ring_);
  }
  uint64_t inflight = static_cast<uint64_t>(f_.Inflight());
  EXPECT_EQ(inflight, 128u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_untimed), 72u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::head) + f_.Sum(&rocattach_ring::dropped), 72u);
  EXPECT_EQ(gpu.Run(), 200u);
  f_.Harvest(&gpu.queue());
  EXPECT_EQ(f_.Inflight(), 0);
  // seen = published + dropped, not counting the clock relation.
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 200u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::head) + f_.Sum(&rocattach_ring::dropped), 201u);
}

// The clock relation does not fit either, and does not count as a lost dispatch.
TEST_F(DoorbellTest, AFullRingCountsOnlyDispatchesAsLostDispatches) {
  rocattach_clock other = {};
  other.kind = ROCATTACH_RECORD_CLOCK;
  while (ring_.Push(&other)) {
  }
  const uint64_t before = f_.Sum(&rocattach_ring::dropped);
  for (int i = 0; i < 10; ++i) {
    Launch();
    gpu_.Run();
  }
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Inflight(), 0);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 10u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_dropped), 10u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::copies_dropped), 0u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dropped) - before, 11u);
}

TEST_F(DoorbellTest, PacketsConsumedUnseenAreRecordedWithoutTimes) {
  uint64_t index = gpu_.Reserve();
  gpu_.Write(index, kKernel);
  uint64_t barrier = gpu_.Reserve();
  gpu_.WriteBarrier(barrier);
  EXPECT_EQ(gpu_.RunUnrung(), 2u);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(barrier), &ring_);
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].flags, ROCATTACH_DISPATCH_UNTIMED);
  EXPECT_EQ(records[0].kernel_id, 5u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_untimed), 1u);
}

TEST_F(DoorbellTest, CatchUpCountsOverwrittenPackets) {
  for (int i = 0; i < 40; ++i) {
    gpu_.Write(gpu_.Reserve(), kKernel);
    gpu_.RunUnrung();
  }
  ASSERT_TRUE(gpu_.queue().lock.TryLock());
  EXPECT_TRUE(f_.doorbell.CatchUp(&gpu_.queue(), &ring_));
  EXPECT_FALSE(f_.doorbell.CatchUp(&gpu_.queue(), &ring_));
  gpu_.queue().lock.Unlock();
  // 16 packets are still in the ring, 24 have been overwritten.
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 24u);
  EXPECT_EQ(AllDispatches(f_.memory).size(), 16u);
}

TEST_F(DoorbellTest, CatchUpCountsKernelsThatItDoesNotKnow) {
  gpu_.Write(gpu_.Reserve(), kKernel);
  gpu_.Write(gpu_.Reserve(), kKernel + 64);
  gpu_.WriteBarrier(gpu_.Reserve());
  gpu_.RunUnrung();
  ASSERT_TRUE(gpu_.queue().lock.TryLock());
  EXPECT_TRUE(f_.doorbell.CatchUp(&gpu_.queue(), &ring_));
  f_.doorbell.Leave(&gpu_.queue(), &ring_);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 1u);
  EXPECT_EQ(AllDispatches(f_.memory).size(), 1u);
}

TEST_F(DoorbellTest, UnfinishedDispatchesArePublishedAsSuch) {
  Launch();
  amd_signal_t signal = {};
  signal.value = 1;
  Launch(&signal);
  Queue& q = gpu_.queue();
  f_.tracker.PublishUnfinished(&q.ops, f_.capture.Context(&q, &ring_));
  auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].flags,
            ROCATTACH_DISPATCH_UNFINISHED | ROCATTACH_DISPATCH_UNTIMED);
  EXPECT_EQ(records[1].flags, ROCATTACH_DISPATCH_UNFINISHED |
                                  ROCATTACH_DISPATCH_UNTIMED |
                                  ROCATTACH_DISPATCH_APP_SIGNAL);
  EXPECT_EQ(f_.tracker.app_signals().tracked(), 0u);
  EXPECT_EQ(f_.Inflight(), 0);
}

TEST_F(DoorbellTest, AValueThatIsNoPacketIndexPassesThrough) {
  f_.doorbell.Ring(&gpu_.queue(), int64_t{1} << 40, &ring_);
  EXPECT_EQ(gpu_.rings(), std::vector<uint64_t>{uint64_t{1} << 40});
  EXPECT_EQ(Launch(), 0u);
  EXPECT_EQ(f_.Inflight(), 1);
}

TEST_F(DoorbellTest, WithoutSignalsOfOurOwnDispatchesAreUntimed) {
  f_.tracker.signals().Drop();
  uint64_t index = Launch();
  EXPECT_EQ(gpu_.packet(index).completion_signal.handle, 0u);
  EXPECT_EQ(AllDispatches(f_.memory).size(), 1u);
}

TEST_F(DoorbellTest, LockHolderHandlesARingMadeWhileItHoldsTheLock) {
  Queue& q = gpu_.queue();
  ASSERT_TRUE(q.lock.TryLock());
  Launch();
  EXPECT_TRUE(gpu_.rings().empty());
  f_.doorbell.Leave(&q, &ring_);
  EXPECT_EQ(gpu_.rings(), std::vector<uint64_t>{0});
  EXPECT_EQ(f_.Inflight(), 1);
}

TEST_F(DoorbellTest, LockHolderHandlesARingRaisedBeforeLocking) {
  Queue& q = gpu_.queue();
  gpu_.Write(gpu_.Reserve(), kKernel);
  q.rung = 1;  // the first step of a ring; its next step finds the lock taken
  ASSERT_TRUE(q.lock.TryLock());
  f_.doorbell.Leave(&q, &ring_);
  EXPECT_EQ(gpu_.rings(), std::vector<uint64_t>{0});
  EXPECT_EQ(f_.Inflight(), 1);
  EXPECT_EQ(q.looked, 1u);
}

TEST_F(DoorbellTest, ARingDuringTheEndOfRecordingIsForwarded) {
  Queue& q = gpu_.queue();
  uint64_t first = gpu_.Reserve();
  uint64_t second = gpu_.Reserve();
  gpu_.Write(second, kKernel);
  f_.doorbell.Ring(&q, static_cast<int64_t>(second), &ring_);  // waits for the first
  gpu_.Write(first, kKernel);
  f_.doorbell.RingIdle(&q, static_cast<int64_t>(first), f_.hsa.signal_store_screlease);
  EXPECT_EQ(gpu_.rings(), (std::vector<uint64_t>{second, first}));
  EXPECT_EQ(q.looked, q.rung);
  EXPECT_EQ(q.deferred, 0u);
}

// The worker has left a queue; before it looks for rings that it missed, the
// application destroys the queue.
TEST_F(DoorbellTest, AQueueThatIsGoneIsNotServed) {
  Queue& q = gpu_.queue();
  ASSERT_TRUE(q.lock.TryLock());
  ++q.rung;
  q.closing = true;
  amd_queue_t* const amd = q.amd;
  q.amd = reinterpret_cast<amd_queue_t*>(uintptr_t{64});  // must not be read
  f_.doorbell.Leave(&q, &ring_);
  EXPECT_TRUE(gpu_.rings().empty());
  EXPECT_TRUE(q.lock.TryLock());
  q.lock.Unlock();
  q.amd = amd;
}

// The producer waits for each of its packets, so it would hang after a lost ring. The
// other thread takes the lock for other purposes.
TEST(DoorbellRaceTest, NoRingIsLostToAThreadThatOnlyHoldsTheLock) {
  constexpr uint64_t kRounds = 200'000;
  CaptureFixture f;
  FakeGpu gpu(64);
  std::atomic<bool> ended = false;
  std::thread holder([&] {
    RingHandle ring = f.rings.Mine();
    while (!ended) {
      if (!gpu.queue().lock.TryLock()) continue;
      f.doorbell.CatchUp(&gpu.queue(), &ring);
      f.doorbell.Leave(&gpu.queue(), &ring);
    }
  });
  RingHandle ring = f.rings.Mine();
  uint64_t lost = 0;
  for (uint64_t i = 0; i < kRounds && lost == 0; ++i) {
    const uint64_t index = gpu.Reserve();
    gpu.WriteBarrier(index);
    f.doorbell.Ring(&gpu.queue(), static_cast<int64_t>(index), &ring);
    const uint64_t patient_until = BootNs() + 20'000'000'000;
    while (gpu.Run() == 0 && lost == 0) {
      std::this_thread::yield();
      if (BootNs() > patient_until) ++lost;
    }
  }
  ended = true;
  holder.join();
  EXPECT_EQ(lost, 0u);
}

// Producers on one queue, the worker, and a packet processor run at the same time: no
// packet is lost, run twice, or run before it was captured.
class DoorbellStressTest : public testing::TestWithParam<int> {};

TEST_P(DoorbellStressTest, EveryPacketIsCapturedAndRunOnce) {
  const int kThreads = GetParam();
  constexpr int kEach = 5000;
  rocattach_collector_config config = SmallConfig();
  config.ring_count = 8;
  config.ring_slots = 1u << 15;
  config.inflight_count = 1024;
  CaptureFixture f(config);
  f.kernels.Insert(kKernel, 5);
  FakeGpu gpu(64);
  gpu.queue().many_producers = kThreads > 1;
  std::atomic<int> running = kThreads;
  std::atomic<bool> given_up = false;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      RingHandle ring = f.rings.Mine();
      for (int i = 0; i < kEach; ++i) {
        uint64_t index = gpu.Reserve();
        while (!given_up && index - LoadAcquire(const_cast<uint64_t*>(
                                        &gpu.amd().read_dispatch_id)) >=
                                64) {
          std::this_thread::yield();
        }
        gpu.Write(index, kKernel);
        f.doorbell.Ring(&gpu.queue(), static_cast<int64_t>(index), &ring);
      }
      --running;
    });
  }
  uint64_t ran = 0;
  RingHandle own = f.rings.Mine();
  constexpr uint64_t kPatienceNs = 60'000'000'000;
  uint64_t patient_until = BootNs() + kPatienceNs;
  while ((running != 0 || ran < static_cast<uint64_t>(kThreads) * kEach) && !given_up) {
    if (gpu.queue().lock.TryLock()) {
      f.doorbell.Serve(&gpu.queue(), &own);
      f.doorbell.Leave(&gpu.queue(), &own);
    }
    const uint64_t n = gpu.Run();
    ran += n;
    if (n != 0) {
      patient_until = BootNs() + kPatienceNs;
      continue;
    }
    std::this_thread::yield();
    if (BootNs() > patient_until) given_up = true;
  }
  EXPECT_FALSE(given_up) << "no packet came after the first " << ran;
  for (auto& thread : threads) thread.join();
  f.Harvest(&gpu.queue());
  EXPECT_EQ(ran, static_cast<uint64_t>(kThreads) * kEach);
  auto records = AllDispatches(f.memory);
  ASSERT_EQ(records.size(), static_cast<size_t>(kThreads) * kEach);
  std::vector<int> seen(static_cast<size_t>(kThreads) * kEach);
  for (const auto& r : records) {
    ++seen[r.packet_index];
    EXPECT_EQ(r.flags, 0);
  }
  for (int count : seen) EXPECT_EQ(count, 1);
  EXPECT_EQ(f.Sum(&rocattach_ring::dropped), 0u);
  EXPECT_EQ(f.Inflight(), 0);
  const std::vector<uint64_t>& rings = gpu.rings();
  // One of several producers may overtake another between its unlock and its ring.
  if (kThreads == 1) {
    EXPECT_TRUE(std::is_sorted(rings.begin(), rings.end()));
  }
  EXPECT_EQ(*std::max_element(rings.begin(), rings.end()), ran - 1);
}

INSTANTIATE_TEST_SUITE_P(Producers, DoorbellStressTest, testing::Values(1, 4));

// A dispatch in AMD's own format, in clusters of workgroups.
AqlPacket ExtDispatch(amd_signal_t* completion = nullptr) {
  AqlPacket packet = {};
  ExtKernelDispatch& ext = packet.ext_dispatch;
  ext.header = HSA_PACKET_TYPE_VENDOR_SPECIFIC;
  ext.format = static_cast<uint8_t>(VendorFormat::kExtKernelDispatch);
  ext.setup = 3;
  ext.workgroup_size[0] = 64;
  ext.workgroup_size[1] = ext.workgroup_size[2] = 2;
  ext.clusters_x = 100'000;
  ext.clusters_y = 3;
  ext.clusters_z = 1;
  ext.cluster_size[0] = 4;
  ext.cluster_size[1] = ext.cluster_size[2] = 1;
  ext.private_segment_size = 32;
  ext.group_segment_size = 16;
  ext.kernel_object = kKernel;
  ext.dependency = 0x1240;
  ext.completion_signal = reinterpret_cast<uint64_t>(completion);
  return packet;
}

AqlPacket Vendor(VendorFormat format) {
  AqlPacket packet = {};
  packet.any.header = HSA_PACKET_TYPE_VENDOR_SPECIFIC;
  packet.any.format = static_cast<uint8_t>(format);
  return packet;
}

TEST_F(DoorbellTest, RecordsADispatchInAmdsFormat) {
  const uint64_t index = gpu_.Reserve();
  gpu_.WritePacket(index, ExtDispatch());
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
  ASSERT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  const auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].flags, 0);
  EXPECT_EQ(records[0].end_ns - records[0].start_ns, 5000u);
  EXPECT_EQ(records[0].kernel_id, 5u);
  EXPECT_EQ(records[0].grid_x, 100'000u * 4 * 64);
  EXPECT_EQ(records[0].grid_y, 3u * 2);
  EXPECT_EQ(records[0].grid_z, 2u);
  EXPECT_EQ(records[0].workgroup_x, 64);
  EXPECT_EQ(records[0].lds_bytes, 16u);
  EXPECT_EQ(records[0].scratch_bytes, 32u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), 0u);
}

TEST_F(DoorbellTest, ADispatchInAmdsFormatMayHaveItsOwnSignal) {
  amd_signal_t signal = {};
  signal.value = 1;
  const uint64_t index = gpu_.Reserve();
  gpu_.WritePacket(index, ExtDispatch(&signal));
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
  EXPECT_EQ(gpu_.packet(index).completion_signal.handle,
            reinterpret_cast<uint64_t>(&signal));
  ASSERT_EQ(gpu_.Run(), 1u);
  f_.Harvest(&gpu_.queue());
  const auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].flags, ROCATTACH_DISPATCH_APP_SIGNAL);
  EXPECT_EQ(signal.value, 0);
}

TEST_F(DoorbellTest, AGridSizeThatOverflowsIsClamped) {
  AqlPacket packet = ExtDispatch();
  packet.ext_dispatch.clusters_x = UINT32_MAX;
  EXPECT_EQ(AsDispatch(packet.ext_dispatch).grid_size_x, UINT32_MAX);
}

// If the packet processor takes a signal's event from another ring, a signal of ours
// would never be signalled: packets without a signal are recorded without times.
TEST_F(DoorbellTest, QueuesWithMetadataGetNoSignalsOfOurs) {
  gpu_.queue().has_metadata = true;
  const uint64_t index = gpu_.Reserve();
  gpu_.WritePacket(index, ExtDispatch());
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
  EXPECT_EQ(gpu_.packet(index).completion_signal.handle, 0u);
  ASSERT_EQ(gpu_.Run(), 1u);
  const auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].flags, ROCATTACH_DISPATCH_UNTIMED);
}

TEST_F(DoorbellTest, RecordsFromARingInDeviceMemory) {
  gpu_.queue().in_device = true;
  for (int i = 0; i < 40; ++i) {
    Launch();
    const uint64_t index = gpu_.Reserve();
    gpu_.WritePacket(index, ExtDispatch());
    f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
    ASSERT_EQ(gpu_.Run(), 2u);
    StoreRelease(&f_.memory.ring(0)->tail, LoadAcquire(&f_.memory.ring(0)->head));
  }
  f_.Harvest(&gpu_.queue());
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 80u);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_untimed), 0u);
  EXPECT_EQ(f_.Inflight(), 0);
}

// Work that a packet does not describe is counted as unseen, and the packet runs.
TEST_F(DoorbellTest, PacketsThatRunOtherPacketsAreCounted) {
  AqlPacket unknown_type = {};
  unknown_type.any.header = 9;
  const AqlPacket packets[] = {
      Vendor(VendorFormat::kIbJump), Vendor(VendorFormat::kIbCondJump),
      Vendor(VendorFormat::kPm4), Vendor(static_cast<VendorFormat>(77)), unknown_type};
  uint64_t count = 0;
  for (const AqlPacket& packet : packets) {
    const uint64_t index = gpu_.Reserve();
    gpu_.WritePacket(index, packet);
    f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
    EXPECT_EQ(gpu_.Run(), 1u);
    EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), ++count);
  }
  // These packets run no kernel.
  for (int i = 0; i < 2; ++i) {
    const uint64_t index = gpu_.Reserve();
    if (i == 0) {
      gpu_.WriteBarrier(index);
    } else {
      gpu_.WritePacket(index, Vendor(VendorFormat::kBarrierValue));
    }
    f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
    EXPECT_EQ(gpu_.Run(), 1u);
  }
  EXPECT_EQ(f_.Sum(&rocattach_ring::packets_unseen), count);
  EXPECT_EQ(f_.Sum(&rocattach_ring::dispatches_seen), 0u);
}

// The completion signal of a jump is not in its last eight bytes.
TEST_F(DoorbellTest, TheSignalOfAJumpIsKnown) {
  amd_signal_t signal = {};
  signal.value = 1;
  Launch(&signal);
  ASSERT_EQ(gpu_.Run(), 1u);
  ASSERT_EQ(f_.tracker.app_signals().tracked(), 1u);
  AqlPacket jump = Vendor(VendorFormat::kIbJump);
  jump.words[6] = reinterpret_cast<uint64_t>(&signal);
  const uint64_t index = gpu_.Reserve();
  gpu_.WritePacket(index, jump);
  f_.doorbell.Ring(&gpu_.queue(), static_cast<int64_t>(index), &ring_);
  // The dispatch's times were taken before the signal is used again.
  EXPECT_EQ(f_.tracker.app_signals().tracked(), 0u);
  signal.start_ts = signal.end_ts = 0;
  f_.Harvest(&gpu_.queue());
  const auto records = AllDispatches(f_.memory);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].end_ns - records[0].start_ns, 5000u);
}

}  // namespace
}  // namespace rocattach::collector
