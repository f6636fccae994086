#include "userspace/watch/windows/stub_remover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "tests/await.h"

namespace rocattach {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

class StubRemoverTest : public testing::Test {
 protected:
  // A process whose removal takes as long as the test wants.
  static constexpr pid_t kSlow = 1;
  // Numbers from here on are no real stubs: they mark a place in the order of removals.
  static constexpr pid_t kMarks = 1000;

  void Start(absl::Duration pause = absl::ZeroDuration()) {
    remover_.emplace(
        [this](const StubLocation& location) { return TryToRemove(location); }, pause);
  }
  void TearDown() override {
    LetSlowGoOn();
    remover_.reset();
  }

  static StubLocation StubOf(pid_t pid) {
    StubLocation location;
    location.pid = pid;
    location.tid = pid;
    location.address = 0x1000;
    return location;
  }
  void Remove(pid_t pid) { remover_->Remove(StubOf(pid)); }
  void RemoveSlow() {
    Remove(kSlow);
    testing_support::Await(slow_began_, "the slow removal to begin");
  }
  void LetSlowGoOn() {
    if (!slow_goes_on_.HasBeenNotified()) slow_goes_on_.Notify();
  }
  // Waits for `count` attempts, and returns all attempts so far.
  std::vector<pid_t> Tried(size_t count) {
    auto enough = [this, count] {
      absl::MutexLock lock(&mutex_);
      return tried_.size() >= count;
    };
    testing_support::Await(enough, absl::StrCat(count, " attempts"));
    absl::MutexLock lock(&mutex_);
    return tried_;
  }
  // The same, but waits until all removals requested before this call have been tried.
  std::vector<pid_t> TriedSoFar() {
    const pid_t mark = next_mark_++;
    Remove(mark);
    auto reached = [this, mark] {
      absl::MutexLock lock(&mutex_);
      return std::find(tried_.begin(), tried_.end(), mark) != tried_.end();
    };
    testing_support::Await(reached, "the removals so far");
    absl::MutexLock lock(&mutex_);
    std::vector<pid_t> tried;
    for (pid_t pid : tried_) {
      if (pid < kMarks) tried.push_back(pid);
    }
    return tried;
  }
  void FailAll(bool retryable) {
    AttachFailure failure;
    failure.reason = AttachReason::kNotAtWindow;
    failure.retryable = retryable;
    failure_ = failure;
  }

  absl::Notification slow_began_, slow_goes_on_;
  std::optional<StubRemover> remover_;

 private:
  StepResult TryToRemove(const StubLocation& location) {
    if (location.pid == kSlow && !slow_began_.HasBeenNotified()) {
      slow_began_.Notify();
      slow_goes_on_.WaitForNotification();
    }
    absl::MutexLock lock(&mutex_);
    tried_.push_back(location.pid);
    if (location.pid >= kMarks || !failure_.has_value()) return StepOk();
    return *failure_;
  }

  pid_t next_mark_ = kMarks;
  std::optional<AttachFailure> failure_;  // set before the start
  absl::Mutex mutex_;
  std::vector<pid_t> tried_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(StubRemoverTest, RemovesEachOnceInItsOrder) {
  Start();
  Remove(2);
  Remove(3);
  EXPECT_THAT(TriedSoFar(), ElementsAre(2, 3));
  EXPECT_THAT(TriedSoFar(), ElementsAre(2, 3));
}

TEST_F(StubRemoverTest, WithoutAnAddressThereIsNoStub) {
  Start();
  StubLocation none = StubOf(2);
  none.address = 0;
  remover_->Remove(none);
  Remove(3);
  EXPECT_THAT(TriedSoFar(), ElementsAre(3));
}

TEST_F(StubRemoverTest, AFailureThatLastsIsNotTriedAgain) {
  FailAll(/*retryable=*/false);
  Start();
  Remove(2);
  TriedSoFar();
  Remove(3);
  EXPECT_THAT(TriedSoFar(), ElementsAre(2, 3));
}

TEST_F(StubRemoverTest, AStubInUseIsTriedALimitedNumberOfTimes) {
  FailAll(/*retryable=*/true);
  Start();
  Remove(2);
  // A stub that is put back is tried once between any two of these calls.
  std::vector<pid_t> tried;
  for (int i = 0; i < StubRemover::kTries + 2; ++i) tried = TriedSoFar();
  EXPECT_EQ(tried, std::vector<pid_t>(StubRemover::kTries, 2));
}

TEST_F(StubRemoverTest, ItsEndDoesNotWaitForThePause) {
  FailAll(/*retryable=*/true);
  Start(absl::InfiniteDuration());
  Remove(2);
  Tried(1);
  std::atomic<bool> ended = false;
  std::thread end([&] {
    remover_.reset();
    ended = true;
  });
  testing_support::Await([&] { return ended.load(); }, "its end");
  end.join();
  EXPECT_EQ(Tried(1), std::vector<pid_t>(StubRemover::kTries, 2))
      << "the other tries are made at once";
}

TEST_F(StubRemoverTest, RequestsBeyondTheLimitAreDropped) {
  Start();
  RemoveSlow();
  constexpr pid_t kTooMuch = 2 + static_cast<pid_t>(StubRemover::kMaxJobs);
  for (pid_t pid = 2; pid <= kTooMuch; ++pid) Remove(pid);
  LetSlowGoOn();
  Tried(1 + StubRemover::kMaxJobs);
  const std::vector<pid_t> tried = TriedSoFar();
  EXPECT_EQ(tried.size(), 1 + StubRemover::kMaxJobs);
  EXPECT_THAT(tried, Not(Contains(kTooMuch)));
  // There is room again afterwards.
  Remove(kTooMuch);
  EXPECT_THAT(TriedSoFar(), Contains(kTooMuch));
}

// By then, the stub of the next attach may be in its place.
TEST_F(StubRemoverTest, AReattachCancelsTheRemovalForGood) {
  Start();
  RemoveSlow();
  Remove(2);
  Remove(3);
  {
    StubRemover::Reattach reattach(&*remover_, 2);
    EXPECT_TRUE(reattach.ok());
    LetSlowGoOn();
    EXPECT_THAT(TriedSoFar(), ElementsAre(kSlow, 3));
  }
  EXPECT_THAT(TriedSoFar(), ElementsAre(kSlow, 3));
  Remove(2);
  EXPECT_THAT(TriedSoFar(), ElementsAre(kSlow, 3, 2));
}

TEST_F(StubRemoverTest, AProcessIsLeftAloneUntilAllItsReattachesAreOver) {
  Start();
  StubRemover::Reattach first(&*remover_, 2);
  {
    StubRemover::Reattach second(&*remover_, 2);
    EXPECT_TRUE(second.ok());
  }
  Remove(2);
  Remove(3);
  EXPECT_THAT(TriedSoFar(), ElementsAre(3));
}

TEST_F(StubRemoverTest, RoomThatIsBeingClearedMustNotBeUsed) {
  Start();
  RemoveSlow();
  EXPECT_FALSE(StubRemover::Reattach(&*remover_, kSlow).ok());
  EXPECT_TRUE(StubRemover::Reattach(&*remover_, 2).ok());
  LetSlowGoOn();
  // It is free as soon as the removal has returned, even if no other stub is waiting.
  testing_support::Await([&] { return StubRemover::Reattach(&*remover_, kSlow).ok(); },
                         "the end of the slow removal");
  EXPECT_THAT(TriedSoFar(), ElementsAre(kSlow));
}

}  // namespace
}  // namespace rocattach
