// The collector in real programs, under the real HSA runtime and HIP.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/collector/collector_run.h"
#include "tests/places.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

constexpr char kDoorbell[] = "103";   // dispatches, copies, force doorbell
constexpr char kIntercept[] = "203";  // dispatches, copies, force intercept

std::string Target(const std::string& name) {
  return TARGETS_DIR "/" + name;
}

class CollectorTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }
  static CollectorRunOptions Options(const char* plan,
                                     std::vector<std::string> more = {}) {
    CollectorRunOptions options;
    options.environment = std::move(more);
    options.environment.push_back(absl::StrCat("COLLECTOR_TEST_PLAN=", plan));
    return options;
  }
  static CollectorRunOptions Default(std::vector<std::string> more = {}) {
    return Options("3", std::move(more));
  }
  static void ExpectOk(const CollectorResult& r) {
    ASSERT_TRUE(r.mapped) << r.errors;
    EXPECT_TRUE(WIFEXITED(r.exit_status) && WEXITSTATUS(r.exit_status) == 0)
        << r.exit_status << "\n"
        << r.output << r.errors;
    EXPECT_EQ(r.text, "");
  }
  // Lists the first dispatches without times, for a failure message.
  static std::string DescribeUntimed(const CollectorResult& r) {
    std::string text;
    int count = 0;
    for (const auto& d : r.dispatches) {
      if ((d.flags & ROCATTACH_DISPATCH_UNTIMED) == 0 || ++count > 10) continue;
      absl::StrAppend(&text, "flags ", d.flags, " queue ", d.queue_id, " packet ",
                      d.packet_index, " correlation ", d.correlation_id, " tid ", d.tid,
                      "\n");
    }
    return text;
  }
  // Every dispatch that the program printed is recorded once, with name and times.
  static void ExpectComplete(const CollectorResult& r) {
    EXPECT_EQ(static_cast<int64_t>(r.dispatches.size()), r.Printed("dispatches"))
        << r.output;
    EXPECT_EQ(r.account.dispatches_seen, r.dispatches.size());
    EXPECT_EQ(r.account.ring_dropped + r.account.other_dropped, 0u);
    EXPECT_EQ(r.account.packets_unseen, 0u);
    EXPECT_EQ(r.account.inflight, 0u);
    EXPECT_TRUE(r.unfinished.empty());
    EXPECT_EQ(r.WithFlags(ROCATTACH_DISPATCH_UNFINISHED), 0u);
    EXPECT_EQ(r.account.dispatches_untimed, r.WithFlags(ROCATTACH_DISPATCH_UNTIMED));
    std::set<uint64_t> ids;
    for (const auto& d : r.dispatches) {
      EXPECT_TRUE(ids.insert(d.correlation_id).second) << d.correlation_id;
      ASSERT_TRUE(r.kernels.count(d.kernel_id)) << d.kernel_id;
      EXPECT_FALSE(r.kernels.at(d.kernel_id).name.empty());
    }
  }
  static void ExpectAllTimed(const CollectorResult& r) {
    EXPECT_EQ(r.WithFlags(ROCATTACH_DISPATCH_UNTIMED), 0u) << DescribeUntimed(r);
  }
  static void ExpectDurations(const CollectorResult& r, uint64_t ns) {
    for (const auto& d : r.dispatches) {
      ASSERT_LE(d.start_ns, d.end_ns);
      // One tick of the GPU's clock in either direction.
      ASSERT_NEAR(static_cast<double>(d.end_ns - d.start_ns), static_cast<double>(ns),
                  100);
      // Clocks are related with an error of a few microseconds at worst.
      ASSERT_GT(d.start_ns + 100'000, d.enqueue_ns);
    }
  }
};

TEST_P(CollectorTest, PlainDispatches) {
  for (const char* signals : {"each", "last", "none"}) {
    SCOPED_TRACE(signals);
    CollectorResult r =
        RunWithCollector({Target("hsa_dispatch"), "-n", "5000", "-q", "2", "-t", "4",
                          "--kernel-signal", signals},
                         Options(GetParam(), {"SIMGPU_KERNEL_NS=5000"}));
    ExpectOk(r);
    ExpectComplete(r);
    ExpectAllTimed(r);
    ExpectDurations(r, 5000);
    EXPECT_EQ(static_cast<int64_t>(r.Named("increment")), r.Printed("increment"));
    EXPECT_EQ(static_cast<int64_t>(r.Named("accumulate")), r.Printed("accumulate"));
    EXPECT_EQ(r.queues.size(), 2u);
    EXPECT_EQ(r.state, static_cast<uint32_t>(ROCATTACH_STATE_ENDED));
  }
}

TEST_P(CollectorTest, HipVectorAdd) {
  CollectorResult r = RunWithCollector({Target("hip_vector_add")}, Options(GetParam()));
  ExpectOk(r);
  ExpectComplete(r);
  ExpectAllTimed(r);
  ASSERT_FALSE(r.copies.empty());
}

TEST_P(CollectorTest, HipOneThread) {
  CollectorResult r = RunWithCollector({Target("hip_launch_rate"), "-n", "20000"},
                                       Options(GetParam(), {"SIMGPU_KERNEL_NS=5000"}));
  ExpectOk(r);
  ExpectComplete(r);
  ExpectAllTimed(r);
  ExpectDurations(r, 5000);
}

TEST_P(CollectorTest, HipSixThreads) {
  CollectorResult r =
      RunWithCollector({Target("hip_launch_rate"), "-n", "5000", "-t", "6"},
                       Options(GetParam(), {"SIMGPU_KERNEL_NS=1000"}));
  ExpectOk(r);
  ExpectComplete(r);
  ExpectAllTimed(r);
}

INSTANTIATE_TEST_SUITE_P(Captures, CollectorTest,
                         testing::Values(kDoorbell, kIntercept),
                         [](const auto& capture) {
                           return capture.param == kDoorbell ? "Doorbell" : "Intercept";
                         });

class CollectorLifeTest : public CollectorTest {};

TEST_F(CollectorLifeTest, DescribesAgentsKernelsAndCodeObjects) {
  CollectorResult r = RunWithCollector({Target("hsa_dispatch"), "-n", "10"},
                                       Default({"SIMGPU_ARCH=gfx90a"}));
  ExpectOk(r);
  ASSERT_EQ(r.agents.size(), 2u);
  const rocattach_agent_entry* gpu = nullptr;
  for (const auto& agent : r.agents) gpu = agent.type == 2 ? &agent : gpu;
  ASSERT_NE(gpu, nullptr);
  EXPECT_GT(gpu->compute_units, 0u);
  EXPECT_EQ(gpu->wavefront_size, 64u);
  EXPECT_GT(gpu->local_memory_bytes, 0u);
  EXPECT_THAT(gpu->uuid, HasSubstr("GPU-"));
  ASSERT_FALSE(r.kernels.empty());
  ASSERT_FALSE(r.code_objects.empty());
  EXPECT_THAT(r.code_objects[0], HasSubstr("://"));
  for (const auto& [id, kernel] : r.kernels) {
    EXPECT_GT(kernel.entry.sgprs, 0) << kernel.name;
    EXPECT_GT(kernel.entry.arch_vgprs, 0) << kernel.name;
    EXPECT_NE(kernel.entry.code_object_id, 0u) << kernel.name;
    EXPECT_GT(kernel.entry.kernarg_bytes, 0u) << kernel.name;
  }
  ASSERT_FALSE(r.clocks.empty());
  EXPECT_GT(r.clocks[0].ticks_per_second, 1'000'000u);
}

TEST_F(CollectorLifeTest, CopiesHaveDirectionBytesAndTimes) {
  CollectorResult r = RunWithCollector(
      {Target("hsa_dispatch"), "-n", "10", "--copies", "50", "--copy-bytes", "65536"},
      Default());
  ExpectOk(r);
  EXPECT_EQ(static_cast<int64_t>(r.copies.size()), r.Printed("copies"));
  uint64_t bytes = 0;
  size_t to_device = 0, to_host = 0;
  for (const auto& copy : r.copies) {
    bytes += copy.bytes;
    to_device += copy.direction == ROCATTACH_COPY_HOST_TO_DEVICE;
    to_host += copy.direction == ROCATTACH_COPY_DEVICE_TO_HOST;
    EXPECT_EQ(copy.flags, 0);
    EXPECT_LT(copy.start_ns, copy.end_ns);
    EXPECT_NE(copy.src_agent_id, copy.dst_agent_id);
  }
  EXPECT_EQ(static_cast<int64_t>(bytes), r.Printed("bytes"));
  EXPECT_EQ(to_device, 25u);
  EXPECT_EQ(to_host, 25u);
  EXPECT_EQ(r.account.copies_seen, r.copies.size());
}

TEST_F(CollectorLifeTest, EveryWayToEndKeepsCompletedDispatches) {
  for (const char* way : {"shutdown", "return", "exit", "atexit"}) {
    SCOPED_TRACE(way);
    CollectorResult r = RunWithCollector(
        {Target("hsa_dispatch"), "-n", "1000", "--exit", way}, Default());
    ExpectOk(r);
    ExpectComplete(r);
    EXPECT_EQ(r.state, static_cast<uint32_t>(ROCATTACH_STATE_ENDED));
  }
}

TEST_F(CollectorLifeTest, AbruptEndsLoseTimesAtMost) {
  for (const char* way : {"_exit", "sigkill"}) {
    SCOPED_TRACE(way);
    CollectorResult r = RunWithCollector(
        {Target("hsa_dispatch"), "-n", "1000", "--exit", way}, Default());
    ASSERT_TRUE(r.mapped) << r.errors;
    EXPECT_EQ(r.state, static_cast<uint32_t>(ROCATTACH_STATE_ARMED));
    std::set<uint64_t> ids;
    for (const auto& d : r.dispatches) ids.insert(d.correlation_id);
    for (const auto& slot : r.unfinished) {
      rocattach_dispatch d;
      memcpy(&d, slot.bytes, sizeof(d));
      ids.insert(d.correlation_id);
    }
    EXPECT_EQ(static_cast<int64_t>(ids.size()), r.Printed("dispatches")) << r.output;
    EXPECT_EQ(r.account.ring_dropped, 0u);
  }
}

TEST_F(CollectorLifeTest, SecondHsaInitIsRecordedToo) {
  CollectorResult r = RunWithCollector({Target("hsa_reinit")}, Default());
  ExpectOk(r);
  ExpectComplete(r);
  // One signal counts all dispatches of a round: it is unknown whose times it holds.
  for (const auto& d : r.dispatches)
    EXPECT_TRUE(d.flags & ROCATTACH_DISPATCH_APP_SIGNAL);
  // The same agents, each of them once.
  EXPECT_EQ(r.agents.size(), 2u);
}

// Both ways into the runtime's tables, from the first start of the runtime to its
// 201st.
TEST_F(CollectorLifeTest, BothEntriesRecordEveryStartOfTheRuntime) {
  for (bool live : {true, false}) {
    SCOPED_TRACE(live ? "live table" : "HSA_TOOLS_LIB");
    std::vector<std::string> environment = {"COLLECTOR_TEST_RINGS=2"};
    if (!live) environment.push_back("COLLECTOR_TEST_ENTRY=tools");
    CollectorResult r = RunWithCollector({Target("hsa_reinit"), "-r", "200", "-n", "5"},
                                         Default(environment));
    ExpectOk(r);
    EXPECT_EQ(r.Printed("dispatches"), 1000);
    EXPECT_EQ(r.dispatches.size(), 1000u);
    EXPECT_EQ(r.account.dispatches_seen, 1000u);
    EXPECT_EQ(r.collector.entry_path(),
              live ? v1::ENTRY_PATH_LIVE_TABLE : v1::ENTRY_PATH_TOOLS_LIB);
    EXPECT_EQ(r.collector.entry_reason().empty(), live) << r.collector.entry_reason();
    EXPECT_EQ(r.collector.other_tool(), "");
  }
}

TEST_F(CollectorLifeTest, ChildrenDoNotInheritTheToolVariable) {
  CollectorResult r = RunWithCollector({Target("child_environment")}, Default());
  ExpectOk(r);
  EXPECT_THAT(r.output, Not(HasSubstr("HSA_TOOLS_LIB=/")));
}

TEST_F(CollectorLifeTest, ForkedChildrenLeaveTheMemoryAlone) {
  CollectorResult r = RunWithCollector({Target("init_then_fork")}, Default());
  ExpectOk(r);
  EXPECT_EQ(static_cast<int64_t>(r.dispatches.size()), r.Printed("dispatches"))
      << r.output;
}

TEST_F(CollectorLifeTest, ManyThreadsCallingHsaInit) {
  CollectorResult r = RunWithCollector({Target("hsa_init_threads")}, Default());
  ExpectOk(r);
}

// Queues are created and destroyed at the same addresses while the collector's thread
// reads them.
TEST_F(CollectorLifeTest, ManyThreadsCreatingAndDestroyingQueues) {
  CollectorResult r =
      RunWithCollector({Target("hsa_init_threads"), "-n", "1", "-r", "150"}, Default());
  ExpectOk(r);
  EXPECT_EQ(r.Printed("dispatches"), 1200);
  ExpectComplete(r);
}

// No doorbell is rung through the runtime: packets that the worker misses are counted.
TEST_F(CollectorLifeTest, DispatchesWithDirectDoorbellsAreRecordedOrCounted) {
  for (const char* way : {"shutdown", "return"}) {
    SCOPED_TRACE(way);
    CollectorResult r =
        RunWithCollector({Target("hsa_dispatch"), "-n", "5000", "--ring-directly",
                          "--rounds", "2", "--sleep-msec", "250", "--exit", way},
                         Default({"SIMGPU_KERNEL_NS=5000"}));
    ExpectOk(r);
    EXPECT_EQ(r.Printed("dispatches"), 10'000);
    EXPECT_EQ(r.dispatches.size() + r.account.packets_unseen, 10'000u);
    EXPECT_GT(r.dispatches.size(), 1000u);
    EXPECT_EQ(r.account.dispatches_seen, r.dispatches.size());
    EXPECT_EQ(r.WithFlags(ROCATTACH_DISPATCH_UNTIMED), r.dispatches.size());
    EXPECT_TRUE(r.unfinished.empty());
  }
}

// With a few at a time the worker keeps up.
TEST_F(CollectorLifeTest, AFewDispatchesWithDirectDoorbellsAreAllRecorded) {
  CollectorResult r = RunWithCollector(
      {Target("hsa_dispatch"), "-n", "100", "--ring-directly", "--kernel-signal",
       "none", "--rounds", "3", "--sleep-msec", "250"},
      Default());
  ExpectOk(r);
  ExpectComplete(r);
  EXPECT_EQ(r.dispatches.size(), 300u);
}

TEST_F(CollectorLifeTest, EarlyExit) {
  CollectorResult r = RunWithCollector({Target("hsa_exit_early")}, Default());
  ExpectOk(r);
  EXPECT_TRUE(r.dispatches.empty());
}

TEST_F(CollectorLifeTest, AUsersToolIsLoadedAsWell) {
  CollectorRunOptions options =
      Default({"HSA_TOOLS_LIB=" + testing_support::WithoutBlanks(NULL_TOOL_PATH)});
  CollectorResult r = RunWithCollector({Target("hsa_dispatch"), "-n", "100"}, options);
  ExpectOk(r);
  ExpectComplete(r);
  EXPECT_THAT(r.errors, HasSubstr("null tool loaded"));
}

TEST_F(CollectorLifeTest, RecordingSwitchesManyTimes) {
  CollectorRunOptions options =
      Default({"SIMGPU_KERNEL_NS=1000", "COLLECTOR_TEST_RECORDING=0"});
  int rounds = 0;
  options.during = [&rounds](CollectorMemory& memory) {
    ++rounds;
    memory.control().SetRecording(rounds % 2 == 1);
  };
  CollectorResult r =
      RunWithCollector({Target("hip_launch_rate"), "-n", "30000", "-t", "2"}, options);
  ExpectOk(r);
  EXPECT_GT(rounds, 10);
  EXPECT_GT(r.dispatches.size(), 0u);
  EXPECT_LT(static_cast<int64_t>(r.dispatches.size()), r.Printed("dispatches"));
  EXPECT_EQ(r.account.dispatches_seen, r.dispatches.size());
  EXPECT_EQ(r.WithFlags(ROCATTACH_DISPATCH_UNFINISHED), 0u);
  for (const auto& d : r.dispatches) EXPECT_TRUE(r.kernels.count(d.kernel_id));
}

TEST_F(CollectorLifeTest, ArmedButIdleRecordsNothing) {
  CollectorResult r = RunWithCollector({Target("hip_launch_rate"), "-n", "5000"},
                                       Default({"COLLECTOR_TEST_RECORDING=0"}));
  ExpectOk(r);
  EXPECT_TRUE(r.dispatches.empty());
  EXPECT_EQ(r.account.dispatches_seen, 0u);
  EXPECT_FALSE(r.kernels.empty());
  EXPECT_FALSE(r.queues.empty());
}

TEST_F(CollectorLifeTest, SmallRingsAndTablesLoseAndCount) {
  CollectorRunOptions options =
      Default({"COLLECTOR_TEST_RINGS=1", "COLLECTOR_TEST_SLOTS=16",
               "COLLECTOR_TEST_INFLIGHT=16", "SIMGPU_KERNEL_NS=0"});
  CollectorResult r =
      RunWithCollector({Target("hip_launch_rate"), "-n", "10000", "-t", "2"}, options);
  ExpectOk(r);
  EXPECT_EQ(static_cast<int64_t>(r.account.dispatches_seen), r.Printed("dispatches"));
  EXPECT_GT(r.account.ring_dropped, 0u);
  EXPECT_EQ(r.account.dispatches_seen + r.account.copies_seen,
            r.dispatches.size() + r.copies.size() + r.account.ring_dropped);
}

TEST_F(CollectorLifeTest, StopsByItselfWithoutADrain) {
  CollectorRunOptions options = Default({"COLLECTOR_TEST_SLOTS=16"});
  options.drain = false;
  uint64_t seen = 0, same = 0;
  options.during = [&](CollectorMemory& memory) {
    memory.Snapshot();  // without draining
    uint64_t now = memory.Account().dispatches_seen;
    same = now == seen && now != 0 ? same + 1 : 0;
    seen = now;
  };
  CollectorResult r =
      RunWithCollector({Target("hip_launch_rate"), "--seconds", "8"}, options);
  ExpectOk(r);
  // The program launched kernels for a while after the collector had stopped counting.
  EXPECT_GT(same, 500u);
  EXPECT_LT(static_cast<int64_t>(r.account.dispatches_seen), r.Printed("dispatches"));
}

TEST_F(CollectorLifeTest, AQueueDestroyedWithWorkPendingIsUnfinished) {
  CollectorResult r =
      RunWithCollector({COLLECTOR_TARGETS_DIR "/hsa_queue_ends"}, Default());
  ExpectOk(r);
  EXPECT_EQ(static_cast<int64_t>(r.dispatches.size()), r.Printed("dispatches"));
  EXPECT_EQ(static_cast<int64_t>(r.WithFlags(ROCATTACH_DISPATCH_UNFINISHED)),
            r.Printed("unfinished"));
  EXPECT_EQ(r.account.inflight, 0u);
}

// Exit handlers run while four threads keep dispatching. The runtime itself may not
// survive that, so the program calls _exit() in a handler that runs before the
// runtime's static objects are destroyed.
TEST_F(CollectorLifeTest, ExitWhileOthersDispatch) {
  for (int i = 0; i < 5; ++i) {
    CollectorResult r =
        RunWithCollector({COLLECTOR_TARGETS_DIR "/hsa_queue_ends", "busy"}, Default());
    ExpectOk(r);
    EXPECT_EQ(r.state, static_cast<uint32_t>(ROCATTACH_STATE_ENDED));
    EXPECT_GT(r.dispatches.size(), 0u);
    EXPECT_EQ(r.account.packets_unseen, 0u);
  }
}

TEST_F(CollectorLifeTest, WithoutAServiceTheTargetRunsOn) {
  CollectorRunOptions options = Default({"COLLECTOR_TEST_WAIT_MSEC=50"});
  options.map = false;
  CollectorResult r = RunWithCollector({Target("hip_vector_add")}, options);
  EXPECT_TRUE(WIFEXITED(r.exit_status) && WEXITSTATUS(r.exit_status) == 0)
      << r.output << r.errors;
  EXPECT_THAT(r.output, HasSubstr("result=ok"));
}

}  // namespace
}  // namespace rocattach
