// Attaches where a library must not be loaded, or where there is hardly any stack: each
// target is compared with an untouched run of the same program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include <ostream>
#include <set>
#include <string>

#include "injector/attach.h"
#include "injector/stub/stub_removal.h"
#include "tests/integration/injector/target_process.h"
#include "tests/places.h"

namespace rocattach {
namespace {

using testing::HasSubstr;

std::string Describe(const AttachOutcome& outcome) {
  return std::string(AttachStageName(outcome.stage)) + "/" +
         std::string(AttachReasonName(outcome.reason)) + " errno " +
         std::to_string(outcome.error) + ": " + outcome.detail;
}

struct ContextCase {
  const char* name;
  const char* mode;
  AttachReason reason;  // kNone: the attach works
  const char* detail = "";
  bool own_program = false;  // the program with its allocator linked in
  const char* preload = "";
};

std::ostream& operator<<(std::ostream& out, const ContextCase& test) {
  return out << test.name;
}

class ContextTest : public testing::TestWithParam<ContextCase> {
 protected:
  static TargetProcess::Options Options() {
    TargetProcess::Options options;
    options.program = GetParam().own_program ? OwnMallocTargetPath() : ContextsPath();
    options.mode = GetParam().mode;
    const std::string preload = GetParam().preload;
    if (!preload.empty()) {
      options.prepare = [path = testing_support::WithoutBlanks(OwnMallocPath())] {
        setenv("LD_PRELOAD", path.c_str(), 1);
      };
    }
    return options;
  }
};

TEST_P(ContextTest, TheTargetRunsAsWithoutUs) {
  TargetProcess native;
  ASSERT_TRUE(native.Start(Options()));
  native.Finish();
  EXPECT_TRUE(native.Intact()) << native.output() << " status " << native.status();

  TargetProcess target;
  ASSERT_TRUE(target.Start(Options()));
  AttachRequest request = target.Request();
  request.stop_timeout_msec = 1000;
  AttachOutcome outcome = target.Attach(request);
  EXPECT_EQ(outcome.reason, GetParam().reason) << Describe(outcome);
  EXPECT_EQ(outcome.ok(), GetParam().reason == AttachReason::kNone);
  EXPECT_EQ(outcome.target_modified, outcome.ok());
  EXPECT_THAT(outcome.detail, HasSubstr(GetParam().detail));
  if (outcome.ok()) {
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  }
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_EQ(target.output(), native.output());
  EXPECT_EQ(target.status(), native.status());
  EXPECT_EQ(target.Report().empty(), !outcome.ok());
}

INSTANTIATE_TEST_SUITE_P(
    Contexts, ContextTest,
    testing::Values(
        ContextCase{"AConstructorJoinsTheThread", "constructor",
                    AttachReason::kLoaderBusy, "holds the dynamic loader's lock"},
        ContextCase{"ACallbackOfTheListJoinsTheThread", "iterate",
                    AttachReason::kLoaderBusy, "holds the dynamic loader's lock"},
        ContextCase{"AConstructorCallsItself", "own-constructor", AttachReason::kNone},
        ContextCase{"AnotherThreadLoadsALibrary", "holder", AttachReason::kNone},
        ContextCase{"AHandlerThatInterruptedMalloc", "malloc-signal",
                    AttachReason::kUnsafeContext, "handler of signal 14 (ALRM)"},
        ContextCase{"AHandlerOnASignalStack", "altstack", AttachReason::kNone},
        ContextCase{"ACoroutine", "coroutine", AttachReason::kNone},
        ContextCase{"LittleStack", "edge=408", AttachReason::kNone},
        ContextCase{"NoStack", "edge=200", AttachReason::kNoCave,
                    "bytes of stack left"},
        ContextCase{"AnAllocatorOfTheProgram", "own-malloc",
                    AttachReason::kUnsafeContext, "the program's own allocator", true},
        ContextCase{"AnAllocatorThatIsPreloaded", "own-malloc",
                    AttachReason::kUnsafeContext, "the program's own allocator", false,
                    "yes"},
        ContextCase{"AHandlerThatInterruptedAnAllocatorOfTheProgram",
                    "own-malloc-signal", AttachReason::kUnsafeContext, "own allocator",
                    true},
        ContextCase{"AHandlerThatInterruptedAPreloadedAllocator", "own-malloc-signal",
                    AttachReason::kUnsafeContext, "allocator", false, "yes"},
        ContextCase{"BesideAnAllocatorOfTheProgram", "own-malloc-idle",
                    AttachReason::kNone, "", true},
        ContextCase{"BesideAPreloadedAllocator", "own-malloc-idle", AttachReason::kNone,
                    "", false, "yes"}),
    [](const auto& test) { return std::string(test.param.name); });

// A process that starts its runtime again and again has one stub for each address at
// which it continues (the test's window has three), not one for each round.
TEST(StubRoomTest, AThousandAttachesNeedNoMoreRoomThanOne) {
  const char* wanted = getenv("ROCATTACH_ATTACH_ROUNDS");
  const int rounds = wanted != nullptr ? atoi(wanted) : 200;
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  LibraryCache cache;
  std::set<uint64_t> places;
  AttachRequest request = target.Request();
  for (int round = 0; round < rounds; ++round) {
    if (round > 0) request.earlier = EarlierAttach::kReplaceStub;
    AttachOutcome outcome = target.Attach(request, &cache);
    ASSERT_TRUE(outcome.ok()) << "round " << round << ": " << Describe(outcome);
    places.insert(outcome.stub_address);
    if (round == 0) {
      ASSERT_THAT(target.WaitForReport(), HasSubstr("started"));
    }
    ASSERT_TRUE(target.WaitAtWindow());
  }
  EXPECT_LE(places.size(), 3u);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

StubLocation LocationOf(const TargetProcess& target, const AttachRequest& request,
                        const AttachOutcome& outcome) {
  StubLocation location;
  location.pid = target.pid();
  location.tid = target.tid();
  location.address = outcome.stub_address;
  location.stack_pointer = outcome.stub_stack_pointer;
  location.window_id = request.config.window_id;
  return location;
}

TEST(StubRemovalTest, AfterACollectorThatDoesNotLoadTheCodeIsAsBefore) {
  for (const std::string mode : {"plain", "thread"}) {
    TargetProcess target;
    ASSERT_TRUE(target.Start(mode) && target.WaitAtWindow());
    const TargetSnapshot before = target.Snapshot();
    AttachRequest request = target.Request();
    request.collector.path = NotACollectorPath();
    AttachOutcome outcome = target.Attach(request);
    ASSERT_TRUE(outcome.ok()) << Describe(outcome);
    ASSERT_TRUE(target.WaitAtWindow());
    EXPECT_NE(before.code, target.Snapshot().code) << "the check below can fail";
    StubLocation location = LocationOf(target, request, outcome);
    location.window_id += 1;
    EXPECT_TRUE(RemoveStub(location).ok());
    EXPECT_NE(before.code, target.Snapshot().code) << "the stub of another attach";
    location.window_id -= 1;
    StepResult removed = RemoveStub(location);
    EXPECT_TRUE(removed.ok()) << removed.failure().detail;
    EXPECT_EQ(before.code, target.Snapshot().code);
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output();
  }
}

TEST(StubRemovalTest, AStubThatIsInUseStays) {
  TargetProcess target;
  ASSERT_TRUE(target.Start(
      {"", "plain", [] { setenv("ROCATTACH_TEST_SLEEP_MSEC", "300", 1); }}));
  AttachRequest request = target.Request();
  AttachOutcome outcome = target.Attach(request);
  ASSERT_TRUE(outcome.ok()) << Describe(outcome);
  const StubLocation location = LocationOf(target, request, outcome);
  ASSERT_THAT(target.WaitForReport(), HasSubstr("started"));
  // The collector's start function sleeps on the stub's stack.
  ASSERT_TRUE(target.WaitForState('S'));
  StepResult removed = RemoveStub(location);
  ASSERT_FALSE(removed.ok());
  EXPECT_EQ(removed.failure().reason, AttachReason::kNotAtWindow)
      << removed.failure().detail;
  ASSERT_TRUE(target.WaitAtWindow());
  removed = RemoveStub(location);
  EXPECT_TRUE(removed.ok()) << removed.failure().detail;
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

// The stub's request for memory is refused: the thread continues without a collector.
TEST(OwnStackTest, AProcessWithoutMemoryGoesOn) {
  TargetProcess target;
  ASSERT_TRUE(target.Start("plain") && target.WaitAtWindow());
  const TargetSnapshot before = target.Snapshot();
  const rlimit nothing = {1 << 20, RLIM_INFINITY};
  ASSERT_EQ(prlimit(target.pid(), RLIMIT_AS, &nothing, nullptr), 0);
  AttachOutcome outcome = target.Attach();
  EXPECT_TRUE(outcome.ok()) << Describe(outcome);
  ASSERT_TRUE(target.WaitAtWindow());
  const TargetSnapshot after = target.Snapshot();
  EXPECT_EQ(before.mappings, after.mappings);
  EXPECT_EQ(before.signals, after.signals);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_EQ(target.Report(), "");
}

}  // namespace
}  // namespace rocattach
