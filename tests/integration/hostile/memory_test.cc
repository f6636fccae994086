// Memory that a target hands to the service in the place of a collector's.
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

// The adversary's way to hand over memory works: with memory as a collector's it is a
// process like any other.
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

}  // namespace
}  // namespace rocattach::testing_support
