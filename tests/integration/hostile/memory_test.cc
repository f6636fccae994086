// Memory that a target passes to the service instead of a collector's.
#include <signal.h>

#include "tests/integration/hostile/hostile_harness.h"

namespace rocattach::testing_support {
namespace {

class HostileMemoryTest : public ::testing::Test {
 protected:
  void SetUp() override { SKIP_WITHOUT_PRIVILEGES(); }
  Adversary Attack(const std::string& mode, const std::string& seconds = "1") {
    return Adversary("hostile_memory", {mode, CollectorPath(), seconds});
  }
};

// The adversary's way of passing memory works: with memory like a collector's it is
// attached like any other process.
TEST_F(HostileMemoryTest, ReportsItsOwnMemory) {
  LiveService service;
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(1000);
  Adversary adversary = Attack("honest");
  EXPECT_TRUE(adversary.Wait().exited_with(0));
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/4);
  const pid_t pid = adversary.pid();
  const Recording recording = service.Stop();
  neighbour.ExpectComplete(recording);
  const RecordedProcess process = recording.Process(pid);
  EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_ATTACHED)
      << process.verdict.detail();
}

// The service survives, has opened no more than it should, and a neighbour that starts
// during the attack is attached without delay and loses nothing.
class MemoryAttackTest : public HostileMemoryTest {
 protected:
  // Runs `mode`, for at most `seconds`, beside a neighbour with `dispatches`, and
  // returns what was recorded of the adversary.
  RecordedProcess Survive(const std::string& mode, uint64_t dispatches,
                          const std::string& seconds) {
    // Long enough for a busy machine, and shorter than the wait for a lease.
    LiveService service({"--auto", "--hold-timeout-msec", "5000"});
    EXPECT_TRUE(service.ready());
    if (!service.ready()) return {};
    Adversary adversary = Attack(mode, seconds);
    EXPECT_TRUE(adversary.Says("reported"));
    Neighbour neighbour(dispatches);
    neighbour.Finish();
    EXPECT_TRUE(service.alive()) << "the attack has ended the service";
    adversary.Signal(SIGTERM);
    const Finished finished = adversary.Wait();
    EXPECT_TRUE(finished.exited_with(0)) << finished.output << finished.errors;
    if (!service.alive()) return {};
    service.ExpectHealthy(/*spare_descriptors=*/4);
    const Recording recording = service.Stop();
    neighbour.ExpectComplete(recording);
    return recording.Process(adversary.pid());
  }
  void ExpectRefused(const RecordedProcess& process, const std::string& why) {
    EXPECT_EQ(process.verdict.state(), v1::WINDOW_STATE_REFUSED);
    EXPECT_NE(process.verdict.detail().find(why), std::string::npos)
        << process.verdict.detail();
  }
};

// Touching a hole of huge pages that the machine does not have is a SIGBUS.
TEST_F(MemoryAttackTest, HugePagesWithHolesAreRefused) {
  ExpectRefused(Survive("hugetlb", 1000, "1"), "the configuration requires");
}

// Opening a file under a write lease waits for its holder, 45 s by default.
TEST_F(MemoryAttackTest, ALeaseDoesNotDelayOtherAttaches) {
  ExpectRefused(Survive("lease-file", 1000, "40"), "not a memfd of ordinary pages");
}

TEST_F(MemoryAttackTest, ALeaseOnAMemfdDoesNotDelayOtherAttaches) {
  Survive("lease-memfd", 1000, "40");
}

// Only the configured sizes are accepted.
TEST_F(MemoryAttackTest, AnotherGeometryIsRefused) {
  ExpectRefused(Survive("geometry", 144'000, "1"), "the configuration requires");
}

// The right sizes, filled with the smallest entries: 2 million of them.
TEST_F(MemoryAttackTest, AFullDictionaryCostsNeighboursNothing) {
  Survive("dictionary", 144'000, "2");
}

// Names that do not compress, as many as fit.
TEST_F(MemoryAttackTest, ADictionaryFullOfNamesIsBounded) {
  const RecordedProcess process = Survive("names", 144'000, "2");
  EXPECT_GT(process.account.dictionary_dropped(), 0u);
}

TEST_F(MemoryAttackTest, HolesAreNotFilled) {
  Survive("holes", 144'000, "2");
}

// A page fault in memory in which a hole is being punched waits until that is done. The
// adversary's exit status says whether it could punch one.
TEST_F(MemoryAttackTest, NoHolesArePunchedWhileItIsRead) {
  Survive("punch", 1000, "40");
}

// All rings are full at every instant.
TEST_F(MemoryAttackTest, AFloodCostsNeighboursNothing) {
  const RecordedProcess process = Survive("flood", 144'000, "2");
  // All records are read, or from some point on none of them is believed.
  if (process.account.not_believable().empty()) {
    EXPECT_GT(process.dispatches.size(), 100'000u);
  }
}

TEST_F(MemoryAttackTest, AFloodOfClocksCostsNeighboursNothing) {
  Survive("clocks", 144'000, "2");
}

// Processes that end one after the other, each leaving a million records behind.
TEST_F(MemoryAttackTest, ProcessesThatEndWithFullRingsCostNeighboursNothing) {
  LiveService service;
  ASSERT_TRUE(service.ready());
  Neighbour neighbour(400'000);
  for (int i = 0; i < 4; ++i) {
    EXPECT_TRUE(Attack("full-exit", "0").Wait().exited_with(0));
  }
  neighbour.Finish();
  service.ExpectHealthy(/*spare_descriptors=*/16);
  neighbour.ExpectComplete(service.Stop());
}

}  // namespace
}  // namespace rocattach::testing_support
