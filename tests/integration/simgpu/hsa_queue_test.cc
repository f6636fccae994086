// Packets, doorbells and errors through the real HSA runtime.
#include <gtest/gtest.h>
#include <string.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/await.h"
#include "tests/integration/simgpu/hsa_session.h"

namespace rocattach {
namespace {

template <typename Packet>
Packet* PacketAt(hsa_queue_t* queue, uint64_t index) {
  return static_cast<Packet*>(queue->base_address) + index % queue->size;
}

void Publish(void* packet, uint16_t type) {
  __atomic_store_n(static_cast<uint16_t*>(packet), type, __ATOMIC_RELEASE);
}

// Waits long enough for a packet to be consumed wrongly; nothing should happen.
void LetTheGpuWork() {
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
}

class SimgpuQueue : public testing::Test {
 protected:
  SimgpuQueue() { queue_ = create_queue(&session_.gpu(), 64, true); }
  ~SimgpuQueue() override { hsa_queue_destroy(queue_); }

  // Writes a barrier packet at the next index, without ringing the doorbell.
  uint64_t WriteBarrier(hsa_signal_t completion,
                        std::vector<hsa_signal_t> dependencies = {},
                        uint16_t type = HSA_PACKET_TYPE_BARRIER_AND) {
    uint64_t index = hsa_queue_add_write_index_relaxed(queue_, 1);
    auto* packet = PacketAt<hsa_barrier_and_packet_t>(queue_, index);
    memset(reinterpret_cast<char*>(packet) + 2, 0, sizeof(*packet) - 2);
    for (size_t i = 0; i < dependencies.size(); i++)
      packet->dep_signal[i] = dependencies[i];
    packet->completion_signal = completion;
    Publish(packet, type);
    return index;
  }
  void Ring(uint64_t index) {
    hsa_signal_store_screlease(queue_->doorbell_signal,
                               static_cast<hsa_signal_value_t>(index));
  }
  uint64_t ReadIndex() { return hsa_queue_load_read_index_scacquire(queue_); }

  HsaSession session_;
  hsa_queue_t* queue_;
};

TEST_F(SimgpuQueue, ReservedPacketsAreNotTouchedBeforeTheirHeaderIsValid) {
  hsa_signal_t signal = create_signal(1);
  uint64_t index = hsa_queue_add_write_index_relaxed(queue_, 1);
  Ring(index);
  LetTheGpuWork();
  EXPECT_EQ(ReadIndex(), 0u);
  auto* packet = PacketAt<hsa_barrier_and_packet_t>(queue_, index);
  memset(reinterpret_cast<char*>(packet) + 2, 0, sizeof(*packet) - 2);
  packet->completion_signal = signal;
  Publish(packet, HSA_PACKET_TYPE_BARRIER_AND);
  wait_for_zero(signal);
  EXPECT_EQ(ReadIndex(), 1u);
  hsa_signal_destroy(signal);
}

TEST_F(SimgpuQueue, ALargerDoorbellThatASmallerOneReplacedIsNotLost) {
  hsa_signal_t signal = create_signal(2);
  uint64_t first = WriteBarrier(signal), second = WriteBarrier(signal);
  // Like two producers that ring in the wrong order; the first value is never seen.
  Ring(second);
  Ring(first);
  wait_for_zero(signal);
  // Like one that never rings for its second packet: the grace period ends the wait.
  hsa_signal_store_relaxed(signal, 2);
  uint64_t third = WriteBarrier(signal);
  WriteBarrier(signal);
  Ring(third);
  wait_for_zero(signal);
  EXPECT_EQ(ReadIndex(), 4u);
  hsa_signal_destroy(signal);
}

TEST_F(SimgpuQueue, BarriersWaitForTheirDependencies) {
  hsa_signal_t gate[2] = {create_signal(1), create_signal(1)};
  hsa_signal_t both = create_signal(1), either = create_signal(1);
  Ring(WriteBarrier(either, {gate[0], gate[1]}, HSA_PACKET_TYPE_BARRIER_OR));
  Ring(WriteBarrier(both, {gate[0], gate[1]}));
  LetTheGpuWork();
  EXPECT_EQ(hsa_signal_load_scacquire(either), 1);
  hsa_signal_store_screlease(gate[1], 0);
  wait_for_zero(either);
  LetTheGpuWork();
  EXPECT_EQ(hsa_signal_load_scacquire(both), 1);
  hsa_signal_store_screlease(gate[0], 0);
  wait_for_zero(both);
  for (hsa_signal_t signal : {gate[0], gate[1], both, either})
    hsa_signal_destroy(signal);
}

TEST_F(SimgpuQueue, BarrierValueComparesUnderItsMask) {
  hsa_signal_t gate = create_signal(0xff00), done = create_signal(1);
  uint64_t index = hsa_queue_add_write_index_relaxed(queue_, 1);
  auto* packet = PacketAt<hsa_amd_barrier_value_packet_t>(queue_, index);
  memset(reinterpret_cast<char*>(packet) + 2, 0, sizeof(*packet) - 2);
  packet->header.AmdFormat = HSA_AMD_PACKET_TYPE_BARRIER_VALUE;
  packet->signal = gate;
  packet->mask = 0xff;
  packet->value = 5;
  packet->cond = HSA_SIGNAL_CONDITION_GTE;
  packet->completion_signal = done;
  Publish(packet, HSA_PACKET_TYPE_VENDOR_SPECIFIC);
  Ring(index);
  LetTheGpuWork();
  EXPECT_EQ(hsa_signal_load_scacquire(done), 1);
  hsa_signal_store_screlease(gate, 0xff05);
  wait_for_zero(done);
  hsa_signal_destroy(gate);
  hsa_signal_destroy(done);
}

TEST_F(SimgpuQueue, ManyLapsAroundTheRing) {
  kernel increment = session_.Kernel("increment");
  hsa_signal_t signal = create_signal(1000);
  for (int i = 0; i < 1000; i++) {
    dispatch(queue_, &increment, session_.increment_arguments(), 64, signal);
  }
  wait_for_zero(signal);
  EXPECT_EQ(*session_.counter(), 1000u);
  EXPECT_EQ(ReadIndex(), 1000u);
  hsa_signal_destroy(signal);
}

TEST_F(SimgpuQueue, CanBeDestroyedWithPacketsThatWait) {
  hsa_signal_t gate = create_signal(1), done = create_signal(1);
  hsa_queue_t* queue = create_queue(&session_.gpu(), 64, false);
  std::swap(queue, queue_);
  Ring(WriteBarrier(done, {gate}));
  std::swap(queue, queue_);
  hsa_queue_destroy(queue);
  EXPECT_EQ(hsa_signal_load_scacquire(done), 1);
  hsa_signal_destroy(gate);
  hsa_signal_destroy(done);
}

// Returns the error that a queue's callback receives for a packet made by `write`.
template <typename Write>
hsa_status_t QueueError(const HsaSession& session, Write write) {
  std::atomic<int> error{0};
  auto callback = [](hsa_status_t status, hsa_queue_t*, void* data) {
    *static_cast<std::atomic<int>*>(data) = status;
  };
  hsa_queue_t* queue;
  check(hsa_queue_create(session.gpu().gpu, 64, HSA_QUEUE_TYPE_SINGLE, callback, &error,
                         UINT32_MAX, UINT32_MAX, &queue),
        "hsa_queue_create");
  auto* packet = PacketAt<hsa_kernel_dispatch_packet_t>(queue, 0);
  memset(reinterpret_cast<char*>(packet) + 2, 0, sizeof(*packet) - 2);
  packet->workgroup_size_x = packet->workgroup_size_y = packet->workgroup_size_z = 1;
  packet->grid_size_x = packet->grid_size_y = packet->grid_size_z = 1;
  packet->kernel_object = 64;
  uint16_t type = write(packet);
  hsa_queue_store_write_index_relaxed(queue, 1);
  Publish(packet, type);
  hsa_signal_store_screlease(queue->doorbell_signal, 0);
  testing_support::Await([&] { return error != 0; }, "the error of the queue");
  hsa_queue_destroy(queue);
  return static_cast<hsa_status_t>(error.load());
}

TEST(SimgpuQueueErrors, AreReportedToTheQueuesCallback) {
  HsaSession session;
  EXPECT_EQ(QueueError(session, [](auto*) { return uint16_t{77}; }),
            HSA_STATUS_ERROR_INVALID_PACKET_FORMAT);
  EXPECT_EQ(QueueError(session,
                       [](auto* packet) {
                         packet->kernel_object = 0;
                         return uint16_t{HSA_PACKET_TYPE_KERNEL_DISPATCH};
                       }),
            HSA_STATUS_ERROR_INVALID_CODE_OBJECT);
  EXPECT_EQ(QueueError(session,
                       [](auto* packet) {
                         packet->workgroup_size_x = 0;
                         return uint16_t{HSA_PACKET_TYPE_KERNEL_DISPATCH};
                       }),
            HSA_STATUS_ERROR_INCOMPATIBLE_ARGUMENTS);
}

}  // namespace
}  // namespace rocattach
