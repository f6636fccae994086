#include "userspace/service/awaited_starts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

namespace rocattach {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Key;

// A process as the functions under test see it.
struct Fake {
  RuntimeStart start = RuntimeStart::kNotStarted;
  uint64_t ticks = 7;
};

class AwaitedStartsTest : public testing::Test {
 protected:
  AwaitedStarts Make(uint64_t timeout_msec) {
    return AwaitedStarts(
        {.has_window = [this](pid_t pid) { return windows_.count(pid) != 0; },
         .read_start = [this](pid_t pid) -> absl::StatusOr<RuntimeStart> {
           auto found = processes_.find(pid);
           if (found == processes_.end()) return absl::NotFoundError("gone");
           return found->second.start;
         },
         .read_start_ticks = [this](pid_t pid) -> absl::StatusOr<uint64_t> {
           auto found = processes_.find(pid);
           if (found == processes_.end()) return absl::NotFoundError("gone");
           return found->second.ticks;
         },
         .now = [this] { return now_; }},
        timeout_msec);
  }
  static void ExpectNothing(const AwaitedStarts::Changes& changes) {
    EXPECT_THAT(changes.started, IsEmpty());
    EXPECT_THAT(changes.given_up, IsEmpty());
  }

  std::map<pid_t, Fake> processes_ = {{1, {}}, {2, {RuntimeStart::kNotLoaded}}};
  std::set<pid_t> windows_;
  uint64_t now_ = 1000;
};

TEST_F(AwaitedStartsTest, WaitsAsLongAsNothingHappens) {
  AwaitedStarts awaited = Make(0);
  EXPECT_TRUE(awaited.empty());
  awaited.Add({1, 7});
  awaited.Add({2, 7});
  now_ += 1'000'000'000;
  ExpectNothing(awaited.Poll());
  EXPECT_FALSE(awaited.empty());
}

// The loader maps a library's code before the rest of the library can be read.
TEST_F(AwaitedStartsTest, ARuntimeThatIsBeingLoadedHasNotStarted) {
  AwaitedStarts awaited = Make(0);
  awaited.Add({1, 7});
  processes_[1].start = RuntimeStart::kUnknown;
  ExpectNothing(awaited.Poll());
  now_ += 900;
  ExpectNothing(awaited.Poll());
  processes_[1].start = RuntimeStart::kNotStarted;
  ExpectNothing(awaited.Poll());
  // In the end, a runtime whose code is not understood counts as started.
  processes_[1].start = RuntimeStart::kUnknown;
  now_ += 900;
  ExpectNothing(awaited.Poll());
  now_ += 1000;
  EXPECT_THAT(awaited.Poll().started, ElementsAre(1));
}

TEST_F(AwaitedStartsTest, AWindowEndsTheWait) {
  AwaitedStarts awaited = Make(10);
  awaited.Add({1, 7});
  awaited.Add({2, 7});
  windows_.insert(1);
  // Its runtime may be open by now.
  processes_[1].start = RuntimeStart::kStarted;
  awaited.OnWindow(2);
  now_ += 100;
  ExpectNothing(awaited.Poll());
  EXPECT_TRUE(awaited.empty());
}

// The runtime may be a library copy that has no probe yet.
TEST_F(AwaitedStartsTest, ALoadedRuntimeIsReportedOnce) {
  AwaitedStarts awaited = Make(0);
  awaited.Add({1, 7});
  awaited.Add({2, 7});
  EXPECT_THAT(awaited.Poll().loaded, ElementsAre(1));
  EXPECT_THAT(awaited.Poll().loaded, IsEmpty());
  processes_[2].start = RuntimeStart::kNotStarted;
  EXPECT_THAT(awaited.Poll().loaded, ElementsAre(2));
  EXPECT_FALSE(awaited.empty());
  processes_[2].start = RuntimeStart::kStarted;
  const AwaitedStarts::Changes changes = awaited.Poll();
  EXPECT_THAT(changes.loaded, IsEmpty());
  EXPECT_THAT(changes.started, ElementsAre(2));
}

TEST_F(AwaitedStartsTest, AStartWithoutAWindowIsReported) {
  AwaitedStarts awaited = Make(0);
  awaited.Add({1, 7});
  processes_[1].start = RuntimeStart::kStarted;
  EXPECT_THAT(awaited.Poll().started, ElementsAre(1));
  EXPECT_TRUE(awaited.empty());
}

TEST_F(AwaitedStartsTest, TheEndIsReportedOnceNoWindowCanCome) {
  AwaitedStarts awaited = Make(0);
  awaited.Add({1, 7});
  awaited.Add({2, 7});
  processes_.erase(1);
  processes_[2].ticks = 8;  // another process with this number
  ExpectNothing(awaited.Poll());
  const AwaitedStarts::Changes changes = awaited.Poll();
  EXPECT_THAT(changes.started, IsEmpty());
  EXPECT_THAT(changes.given_up, ElementsAre(Key(1), Key(2)));
  EXPECT_TRUE(absl::IsNotFound(changes.given_up.at(1)));
  EXPECT_TRUE(awaited.empty());
  // A process that opened its window and ended at once.
  processes_[1] = {};
  awaited.Add({1, 7});
  processes_.erase(1);
  ExpectNothing(awaited.Poll());
  awaited.OnWindow(1);
  ExpectNothing(awaited.Poll());
}

TEST_F(AwaitedStartsTest, TheTimeoutCountsForEach) {
  AwaitedStarts awaited = Make(500);
  awaited.Add({1, 7});
  now_ += 400;
  awaited.Add({2, 7});
  now_ += 100;
  const AwaitedStarts::Changes changes = awaited.Poll();
  EXPECT_THAT(changes.given_up, ElementsAre(Key(1)));
  EXPECT_THAT(std::string(changes.given_up.at(1).message()),
              HasSubstr("within 500 ms"));
  EXPECT_FALSE(awaited.empty());
}

}  // namespace
}  // namespace rocattach
