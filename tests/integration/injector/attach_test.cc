// Attaches to real processes whose threads are at a window, and checks their state
// afterwards.
#include "injector/attach.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "tests/integration/injector/signal_storm.h"
#include "tests/integration/injector/target_process.h"
#include "tests/integration/random_instants.h"
#include "tests/places.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string Describe(const AttachOutcome& outcome) {
  return std::string(AttachStageName(outcome.stage)) + "/" +
         std::string(AttachReasonName(outcome.reason)) + " errno " +
         std::to_string(outcome.error) + ": " + outcome.detail;
}

TEST(AttachTest, StartsTheCollectorAndRestoresTheThread) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  TargetSnapshot before = target.Snapshot();
  const uint64_t begin_ns = BootNs();
  AttachOutcome outcome = target.Attach();
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_EQ(outcome.reason, AttachReason::kNone);
  EXPECT_TRUE(outcome.target_modified);
  EXPECT_FALSE(outcome.tracer_must_exit);
  EXPECT_GE(outcome.seized_ns, begin_ns);
  EXPECT_GE(outcome.stopped_ns, outcome.seized_ns);
  EXPECT_GE(outcome.released_ns, outcome.stopped_ns);
  std::string report = target.WaitForReport();
  EXPECT_THAT(
      report,
      StartsWith("started size=" + std::to_string(sizeof(rocattach_collector_config)) +
                 " version=" + std::to_string(ROCATTACH_SHM_VERSION) +
                 " recording=1 window=" + std::to_string(target.pid() + 1000000) +
                 " path=" + CollectorPath() + " at="));
  // The report is written before the stub has restored everything.
  ASSERT_TRUE(target.WaitAtWindow());
  TargetSnapshot after = target.Snapshot();
  EXPECT_EQ(before.descriptors, after.descriptors);
  EXPECT_EQ(before.mappings, after.mappings);
  EXPECT_EQ(before.signals, after.signals);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
}

// Shows that the check above can fail: without a collector there is no report.
TEST(AttachTest, ATargetThatIsLeftAloneReportsNothing) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
  EXPECT_EQ(target.Report(), "");
}

TEST(AttachTest, APreparationChangesNothingAndIsUsed) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  ASSERT_TRUE(target.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot();
  LibraryCache cache;
  AttachRequest request = target.Request();
  PreparedTarget prepared;
  ASSERT_TRUE(PrepareAttach(request, &cache, &prepared).ok());
  ASSERT_TRUE(prepared.ready());
  const RemoteAddress room = prepared.facts().cave.address;
  EXPECT_EQ(target.Snapshot().code, before.code);
  request.known.prepared = &prepared;
  AttachOutcome outcome = target.Attach(request, &cache);
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_EQ(outcome.stub_address, room.value());
  EXPECT_FALSE(prepared.ready()) << "not used";
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

// As if another library were mapped there now, or the program used that space.
TEST(AttachTest, APreparationThatHoldsNoLongerIsNotUsed) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  LibraryCache cache;
  AttachRequest request = target.Request();
  PreparedTarget prepared;
  ASSERT_TRUE(PrepareAttach(request, &cache, &prepared).ok());
  const RemoteAddress used = prepared.facts().cave.address + 8;
  auto memory = TargetMemory::Open(target.pid(), target.tid());
  ASSERT_TRUE(memory.ok()) << memory.status();
  const char theirs[] = "theirs";
  ASSERT_TRUE(memory->Write(used, theirs, sizeof(theirs)).ok());
  EXPECT_FALSE(prepared.StillHolds());
  request.known.prepared = &prepared;
  AttachOutcome outcome = target.Attach(request, &cache);
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_NE(outcome.stub_address, (used - 8).value());
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  char now[sizeof(theirs)] = {};
  ASSERT_TRUE(memory->Read(used, now, sizeof(now)).ok());
  EXPECT_STREQ(now, theirs);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(AttachTest, WorksOnAThreadThatIsNotTheFirst) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("thread"));
  ASSERT_NE(target.pid(), target.tid());
  AttachOutcome outcome = target.Attach();
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(AttachTest, OtherThreadsMayAllocateLoadAndSignal) {
  for (int i = 0; i < 5; ++i) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("busy"));
    AttachOutcome outcome = target.Attach();
    ASSERT_TRUE(outcome.ok()) << Describe(outcome);
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output();
  }
}

TEST(AttachTest, NoSignalIsLostInAStormOfThem) {
  for (int i = 0; i < 5; ++i) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("timer"));
    SignalStorm storm(target.pid());
    AttachOutcome outcome = target.Attach();
    storm.Join();
    ASSERT_TRUE(outcome.ok()) << Describe(outcome);
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output();
    EXPECT_THAT(target.output(), HasSubstr(SignalStorm::Sum()));
  }
}

TEST(AttachTest, AStopByAnOperatorGoesOnAfterTheAttach) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  ASSERT_EQ(kill(target.pid(), SIGSTOP), 0);
  ASSERT_TRUE(target.WaitForState('T'));
  AttachOutcome outcome = target.Attach();
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  ASSERT_TRUE(target.WaitForState('T'));
  // Nothing happens: there is no event to wait for.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_EQ(target.State(), 'T');
  EXPECT_EQ(target.Report(), "");
  ASSERT_EQ(kill(target.pid(), SIGCONT), 0);
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(AttachTest, ASecondAttachIsRefused) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain"));
  AttachOutcome outcome = target.Attach();
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  ASSERT_THAT(target.WaitForReport(), HasSubstr("started"));
  outcome = target.Attach();
  EXPECT_EQ(outcome.reason, AttachReason::kAlreadyAttached) << Describe(outcome);
  EXPECT_FALSE(outcome.target_modified);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

TEST(AttachTest, ManyTargetsAtOnceShareOneCache) {
  LibraryCache cache;
  std::vector<std::unique_ptr<TargetProcess>> targets;
  for (int i = 0; i < 8; ++i) {
    targets.push_back(std::make_unique<TargetProcess>());
    ASSERT_TRUE(targets.back()->Start("plain"));
  }
  std::vector<AttachOutcome> outcomes(targets.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < targets.size(); ++i) {
    threads.emplace_back(
        [&, i] { outcomes[i] = targets[i]->Attach(targets[i]->Request(), &cache); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_GE(cache.size(), 1u);
  EXPECT_LE(cache.size(), 4u);
  for (size_t i = 0; i < targets.size(); ++i) {
    EXPECT_TRUE(outcomes[i].ok()) << Describe(outcomes[i]);
    EXPECT_THAT(targets[i]->WaitForReport(), HasSubstr("started"));
    targets[i]->Finish();
    EXPECT_TRUE(targets[i]->Intact()) << targets[i]->output();
  }
}

TEST(AttachTest, ACollectorThatDoesNotLoadLeavesTheTargetAsItWas) {
  const testing_support::ExecutableDirectory directory;
  const std::string file = directory / "collector.so";
  FILE* out = fopen(file.c_str(), "w");
  ASSERT_NE(out, nullptr);
  fputs("not a library\n", out);
  fclose(out);
  chmod(file.c_str(), 0644);
  for (const std::string& path : {file, NotACollectorPath()}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start("plain"));
    AttachRequest request = target.Request();
    request.collector.path = path;
    AttachOutcome outcome = target.Attach(request);
    EXPECT_TRUE(outcome.ok()) << Describe(outcome);
    target.Finish();
    EXPECT_TRUE(target.Intact()) << path << ": " << target.output();
    EXPECT_EQ(target.Report(), "");
  }
}

// The stub has its own stack.
TEST(AttachTest, ADeepStackIsNotUsed) {
  auto limit = [] {
    rlimit stack = {1 << 20, 1 << 20};
    setrlimit(RLIMIT_STACK, &stack);
  };
  TargetProcess enough, full;
  ASSERT_TRUE(enough.Start({"", "deep=600000", limit}));
  AttachOutcome outcome = enough.Attach();
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_THAT(enough.WaitForReport(), HasSubstr("started"));
  enough.Finish();
  EXPECT_TRUE(enough.Intact()) << enough.output();

  ASSERT_TRUE(full.Start({"", "deep=1000000", limit}));
  outcome = full.Attach();
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_THAT(full.WaitForReport(), HasSubstr("started"));
  full.Finish();
  EXPECT_TRUE(full.Intact()) << full.output();
}

TEST(AttachTest, ASmallThreadStackIsEnough) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("small-stack"));
  AttachOutcome outcome = target.Attach();
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

// The target dies at random instants of the attach: the verdict is one of two, and its
// parent (this process) gets its exit status.
TEST(AttachTest, TheTargetMayBeKilledAtAnyInstant) {
  std::mt19937 random(20240607);
  RandomInstants instants;
  for (int i = 0; i < 100 || (instants.OneSided() && i < 1000); ++i) {
    TargetProcess target;
    ASSERT_TRUE(target.Start(i % 2 == 0 ? "plain" : "thread"));
    ASSERT_TRUE(target.WaitAtWindow());
    const pid_t pid = target.pid();
    const auto wait = instants.Next(&random);
    std::thread killer([pid, wait] {
      std::this_thread::sleep_for(wait);
      kill(pid, SIGKILL);
    });
    AttachOutcome outcome = AttachOnOwnThread(target.Request());
    killer.join();
    instants.Add(/*late=*/outcome.ok());
    // Files of a dying process give all kinds of errors; what counts is that an attach
    // that failed says why, and that the process is gone.
    if (outcome.reason != AttachReason::kTargetExited) {
      EXPECT_TRUE(outcome.ok() || !outcome.detail.empty()) << Describe(outcome);
    }
    target.Collect();
    EXPECT_TRUE(WIFSIGNALED(target.status()) && WTERMSIG(target.status()) == SIGKILL)
        << target.status();
  }
  EXPECT_FALSE(instants.OneSided()) << "all kills came before the attach, or behind it";
}

TEST(AttachTest, AThreadInAnUninterruptibleSleepIsGivenUpInTime) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("vfork"));
  ASSERT_TRUE(target.WaitForState('D'));
  AttachRequest request = target.Request();
  request.stop_timeout_msec = 20;
  AttachOutcome outcome = AttachOnOwnThread(request);
  EXPECT_EQ(outcome.stage, AttachStage::kStop);
  EXPECT_EQ(outcome.reason, AttachReason::kStopTimeout) << Describe(outcome);
  EXPECT_TRUE(outcome.retryable);
  EXPECT_FALSE(outcome.target_modified);
  target.Collect();
  EXPECT_TRUE(target.Intact()) << target.output();
}

}  // namespace
}  // namespace rocattach
