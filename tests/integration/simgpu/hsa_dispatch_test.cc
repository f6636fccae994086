// Dispatches, times and signals through the real HSA runtime.
#include <gtest/gtest.h>
#include <hsa/amd_hsa_signal.h>

#include <atomic>

#include "tests/await.h"
#include "tests/integration/simgpu/hsa_session.h"

namespace rocattach {
namespace {

hsa_amd_profiling_dispatch_time_t DispatchTime(const HsaSession& session,
                                               hsa_signal_t signal) {
  hsa_amd_profiling_dispatch_time_t time = {};
  check(hsa_amd_profiling_get_dispatch_time(session.gpu().gpu, signal, &time),
        "hsa_amd_profiling_get_dispatch_time");
  return time;
}

TEST(SimgpuDispatch, TimesAreTranslatedBetweenTheClockDomains) {
  HsaSession session(Environment{{"SIMGPU_KERNEL_NS", "2000000"}});
  hsa_queue_t* queue = create_queue(&session.gpu(), 64, false);
  check(hsa_amd_profiling_set_profiler_enabled(queue, 1), "set_profiler_enabled");
  kernel increment = session.Kernel("increment");
  hsa_signal_t signal = create_signal(1);
  uint64_t before = SystemTimestamp();
  dispatch(queue, &increment, session.increment_arguments(), 64, signal);
  wait_for_zero(signal);
  uint64_t after = SystemTimestamp();
  auto time = DispatchTime(session, signal);
  // The translation extrapolates from two readings of both clocks: microseconds off.
  constexpr uint64_t kSlack = 100'000;
  EXPECT_GE(time.start + kSlack, before);
  EXPECT_LE(time.end, after + kSlack);
  EXPECT_NEAR(static_cast<double>(time.end - time.start), 2'000'000.0, 2'000.0);
  // The signal itself has GPU ticks, which have another scale and another zero.
  const auto* raw = reinterpret_cast<const amd_signal_t*>(signal.handle);
  EXPECT_EQ(raw->end_ts - raw->start_ts, 50'000u);
  EXPECT_GT(raw->start_ts, after / 40);
  hsa_signal_destroy(signal);
  hsa_queue_destroy(queue);
  EXPECT_EQ(*session.counter(), 1u);
}

TEST(SimgpuDispatch, TimesAreWrittenOnlyWhereProfilingIsOn) {
  HsaSession session;
  hsa_queue_t* queue = create_queue(&session.gpu(), 64, false);
  kernel increment = session.Kernel("increment");
  hsa_signal_t signal = create_signal(1);
  auto* raw = reinterpret_cast<amd_signal_t*>(signal.handle);
  raw->start_ts = raw->end_ts = 0;
  dispatch(queue, &increment, session.increment_arguments(), 64, signal);
  wait_for_zero(signal);
  EXPECT_EQ(raw->start_ts, 0u);
  EXPECT_EQ(raw->end_ts, 0u);
  check(hsa_amd_profiling_set_profiler_enabled(queue, 1), "set_profiler_enabled");
  hsa_signal_store_relaxed(signal, 1);
  barrier(queue, signal);
  wait_for_zero(signal);
  EXPECT_NE(raw->start_ts, 0u);
  EXPECT_GE(raw->end_ts, raw->start_ts);
  hsa_signal_destroy(signal);
  hsa_queue_destroy(queue);
}

TEST(SimgpuDispatch, OneQueueRunsInOrder) {
  HsaSession session(Environment{{"SIMGPU_KERNEL_NS", "50000"}});
  hsa_queue_t* queue = create_queue(&session.gpu(), 64, false);
  check(hsa_amd_profiling_set_profiler_enabled(queue, 1), "set_profiler_enabled");
  kernel increment = session.Kernel("increment");
  std::vector<hsa_signal_t> signals;
  for (int i = 0; i < 20; i++) {
    signals.push_back(create_signal(1));
    dispatch(queue, &increment, session.increment_arguments(), 64, signals.back());
  }
  uint64_t previous_end = 0;
  for (hsa_signal_t signal : signals) {
    wait_for_zero(signal);
    const auto* raw = reinterpret_cast<const amd_signal_t*>(signal.handle);
    EXPECT_GE(raw->start_ts, previous_end);
    EXPECT_EQ(raw->end_ts - raw->start_ts, 1250u);
    previous_end = raw->end_ts;
    hsa_signal_destroy(signal);
  }
  hsa_queue_destroy(queue);
}

TEST(SimgpuDispatch, QueuesRunConcurrently) {
  HsaSession session(Environment{{"SIMGPU_KERNEL_NS", "200000000"}});
  kernel increment = session.Kernel("increment");
  hsa_queue_t* queues[2];
  hsa_signal_t signals[2];
  for (int i = 0; i < 2; i++) {
    queues[i] = create_queue(&session.gpu(), 64, false);
    check(hsa_amd_profiling_set_profiler_enabled(queues[i], 1), "set_profiler_enabled");
    signals[i] = create_signal(1);
  }
  // Only one gate, so that both start together however slowly this thread runs.
  hsa_signal_t gate = create_signal(1);
  for (int i = 0; i < 2; i++) {
    uint64_t index = hsa_queue_add_write_index_relaxed(queues[i], 1);
    auto* packet =
        static_cast<hsa_barrier_and_packet_t*>(queues[i]->base_address) + index;
    *packet = {};
    packet->dep_signal[0] = gate;
    __atomic_store_n(&packet->header, HSA_PACKET_TYPE_BARRIER_AND, __ATOMIC_RELEASE);
    dispatch(queues[i], &increment, session.increment_arguments(), 64, signals[i]);
  }
  hsa_signal_store_screlease(gate, 0);
  for (hsa_signal_t signal : signals) wait_for_zero(signal);
  const auto* first = reinterpret_cast<const amd_signal_t*>(signals[0].handle);
  const auto* second = reinterpret_cast<const amd_signal_t*>(signals[1].handle);
  EXPECT_LT(first->start_ts, second->end_ts);
  EXPECT_LT(second->start_ts, first->end_ts);
  for (int i = 0; i < 2; i++) {
    hsa_signal_destroy(signals[i]);
    hsa_queue_destroy(queues[i]);
  }
  hsa_signal_destroy(gate);
}

TEST(SimgpuDispatch, AsyncHandlersSeeEveryCompletion) {
  HsaSession session;
  hsa_queue_t* queue = create_queue(&session.gpu(), 64, false);
  kernel increment = session.Kernel("increment");
  std::atomic<int> called{0};
  constexpr int kDispatches = 200;
  std::vector<hsa_signal_t> signals;
  for (int i = 0; i < kDispatches; i++) {
    signals.push_back(create_signal(1));
    auto handler = [](hsa_signal_value_t, void* data) {
      (*static_cast<std::atomic<int>*>(data))++;
      return false;
    };
    check(hsa_amd_signal_async_handler(signals.back(), HSA_SIGNAL_CONDITION_LT, 1,
                                       handler, &called),
          "hsa_amd_signal_async_handler");
    dispatch(queue, &increment, session.increment_arguments(), 64, signals.back());
  }
  for (hsa_signal_t signal : signals) wait_for_zero(signal);
  testing_support::Await([&] { return called >= kDispatches; }, "the last handler");
  EXPECT_EQ(*session.counter(), static_cast<uint64_t>(kDispatches));
  hsa_queue_destroy(queue);
  for (hsa_signal_t signal : signals) hsa_signal_destroy(signal);
}

TEST(SimgpuDispatch, WorksWithoutInterrupts) {
  HsaSession session(Environment{{"HSA_ENABLE_INTERRUPT", "0"}});
  hsa_queue_t* queue = create_queue(&session.gpu(), 64, false);
  kernel increment = session.Kernel("increment");
  hsa_signal_t signal = create_signal(100);
  for (int i = 0; i < 100; i++) {
    dispatch(queue, &increment, session.increment_arguments(), 64, signal);
  }
  wait_for_zero(signal);
  EXPECT_EQ(*session.counter(), 100u);
  hsa_signal_destroy(signal);
  hsa_queue_destroy(queue);
}

TEST(SimgpuDispatch, ScratchIsProvidedWhenAKernelNeedsIt) {
  HsaSession session;
  hsa_queue_t* queue = create_queue(&session.gpu(), 64, false);
  kernel reverse = session.Kernel("reverse_tile");
  ASSERT_GT(reverse.private_bytes, 0u);
  ASSERT_GT(reverse.group_bytes, 0u);
  auto* data = session.Allocate<uint32_t>(session.gpu().host, 128);
  for (uint32_t i = 0; i < 128; i++) data[i] = i;
  auto** arguments = session.Allocate<uint32_t*>(session.gpu().kernarg, 32);
  *arguments = data;
  hsa_signal_t signal = create_signal(1);
  dispatch(queue, &reverse, arguments, 128, signal);
  wait_for_zero(signal);
  EXPECT_EQ(data[0], 63u);
  EXPECT_EQ(data[63], 0u);
  EXPECT_EQ(data[64], 127u);
  // Again, now that the queue has its scratch memory.
  hsa_signal_store_relaxed(signal, 1);
  dispatch(queue, &reverse, arguments, 128, signal);
  wait_for_zero(signal);
  EXPECT_EQ(data[0], 0u);
  hsa_signal_destroy(signal);
  hsa_queue_destroy(queue);
}

TEST(SimgpuDispatch, ComputesOnEveryGpuOfSeveral) {
  HsaSession session(Environment{{"SIMGPU_COUNT", "4"}, {"SIMGPU_ARCH", "gfx906"}});
  std::vector<hsa_agent_t> agents = GpuAgents();
  ASSERT_EQ(agents.size(), 4u);
  for (hsa_agent_t agent : agents) {
    char name[64];
    check(hsa_agent_get_info(agent, HSA_AGENT_INFO_NAME, name), "hsa_agent_get_info");
    EXPECT_STREQ(name, "gfx906");
    hsa_queue_t* queue;
    check(hsa_queue_create(agent, 64, HSA_QUEUE_TYPE_SINGLE, nullptr, nullptr,
                           UINT32_MAX, UINT32_MAX, &queue),
          "hsa_queue_create");
    hsa_signal_t signal = create_signal(1);
    barrier(queue, signal);
    wait_for_zero(signal);
    hsa_signal_destroy(signal);
    hsa_queue_destroy(queue);
  }
}

}  // namespace
}  // namespace rocattach
