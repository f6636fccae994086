// The collector in programs that have been running for a while: it is loaded on a
// thread of its own while the others launch kernels.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "tests/integration/collector/collector_run.h"

namespace rocattach {
namespace {

constexpr char kLate[] = "COLLECTOR_TEST_PLAN=403";  // dispatches, copies, late

class LateCollectorTest : public testing::Test {
 protected:
  void SetUp() override { SKIP_UNLESS_TARGETS_CAN_BE_MAPPED(); }

  static CollectorResult Run(std::vector<std::string> arguments,
                             std::vector<std::string> environment = {}) {
    std::vector<std::string> command = {TARGETS_DIR "/hip_late", "--load"};
    command.insert(command.end(), arguments.begin(), arguments.end());
    CollectorRunOptions options;
    options.environment = std::move(environment);
    options.environment.push_back(kLate);
    options.environment.push_back("COLLECTOR_TEST_LATE=1");
    return RunWithCollector(command, options);
  }

  // Every launch of After is recorded, with its name and times.
  static void ExpectEveryLaterDispatch(const CollectorResult& r) {
    ASSERT_TRUE(r.mapped) << r.errors;
    EXPECT_TRUE(WIFEXITED(r.exit_status) && WEXITSTATUS(r.exit_status) == 0)
        << r.exit_status << "\n"
        << r.output << r.errors;
    EXPECT_EQ(r.text, "");
    EXPECT_EQ(r.collector.entry_path(), v1::ENTRY_PATH_LATE);
    EXPECT_EQ(static_cast<int64_t>(r.Named("After")), r.Printed("after")) << r.output;
    EXPECT_LE(static_cast<int64_t>(r.Named("Before")), r.Printed("before")) << r.output;
    EXPECT_EQ(r.account.ring_dropped + r.account.other_dropped, 0u);
    EXPECT_EQ(r.account.packets_unseen, 0u);
    EXPECT_EQ(r.WithFlags(ROCATTACH_DISPATCH_UNTIMED), 0u);
    EXPECT_EQ(r.WithFlags(ROCATTACH_DISPATCH_UNFINISHED), 0u);
    for (const rocattach_dispatch& d : r.dispatches) {
      ASSERT_TRUE(r.kernels.count(d.kernel_id)) << d.kernel_id;
      EXPECT_NE(r.kernels.at(d.kernel_id).entry.arch_vgprs, 0);
      EXPECT_LT(d.start_ns, d.end_ns);
    }
  }
};

TEST_F(LateCollectorTest, OneThreadOnItsOldStream) {
  ExpectEveryLaterDispatch(Run({}));
}

TEST_F(LateCollectorTest, SixteenThreads) {
  ExpectEveryLaterDispatch(Run({"-t", "16", "-m", "500"}));
}

TEST_F(LateCollectorTest, ThreadsThatShareStreams) {
  ExpectEveryLaterDispatch(Run({"-t", "8", "-s", "2", "-m", "500"}));
}

TEST_F(LateCollectorTest, OldAndNewStreams) {
  ExpectEveryLaterDispatch(Run({"-t", "2", "--new", "-m", "200"}));
}

TEST_F(LateCollectorTest, AnIdleProgramIsArmedByItsNextCall) {
  const CollectorResult r = Run({"--idle"});
  ExpectEveryLaterDispatch(r);
  EXPECT_EQ(r.Named("Before"), 0u);
}

// An old queue does not identify its GPU; its kernels do.
TEST_F(LateCollectorTest, TheSecondGpu) {
  const CollectorResult r = Run({"-d", "1"}, {"SIMGPU_COUNT=2"});
  ExpectEveryLaterDispatch(r);
  std::set<uint32_t> agents;
  for (const rocattach_dispatch& d : r.dispatches) agents.insert(d.agent_id);
  ASSERT_EQ(agents.size(), 1u);
  uint32_t second = 0;
  for (const rocattach_agent_entry& agent : r.agents) {
    if (agent.type == 2) second = agent.entry.id;
  }
  EXPECT_EQ(*agents.begin(), second);
}

}  // namespace
}  // namespace rocattach
