#include "userspace/watch/stub_remover.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

namespace rocattach {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::Not;

class StubRemoverTest : public testing::Test {
 protected:
  // A process whose removal lasts as long as the test wants.
  static constexpr pid_t kSlow = 1;
  // Processes from this one on mark a place in the order of removals.
  static constexpr pid_t kMarks = 1000;

  void Start(absl::Duration pause = absl::ZeroDuration()) {
    remover_.emplace([this](const StubLocation& location) { return Take(location); },
                     pause);
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
    slow_began_.WaitForNotification();
  }
  void LetSlowGoOn() {
    if (!slow_goes_on_.HasBeenNotified()) slow_goes_on_.Notify();
  }
  // All that were tried so far; waits for that many.
  std::vector<pid_t> Tried(size_t count) {
    auto enough = [this, count] {
      mutex_.AssertReaderHeld();
      return tried_.size() >= count;
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&enough));
    return tried_;
  }
  // The same, until everything has been tried that was wanted before this call.
  std::vector<pid_t> TriedSoFar() {
    const pid_t mark = next_mark_++;
    Remove(mark);
    auto reached = [this, mark] {
      mutex_.AssertReaderHeld();
      return std::find(tried_.begin(), tried_.end(), mark) != tried_.end();
    };
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(&reached));
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
  StepResult Take(const StubLocation& location) {
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

TEST_F(StubRemoverTest, AStubInUseIsTriedSoOftenAndNoMore) {
  FailAll(/*retryable=*/true);
  Start();
  Remove(2);
  // A stub that is put back is tried once more between any two of these.
  std::vector<pid_t> tried;
  for (int i = 0; i < StubRemover::kTries + 2; ++i) tried = TriedSoFar();
  EXPECT_EQ(tried, std::vector<pid_t>(StubRemover::kTries, 2));
}

TEST_F(StubRemoverTest, ItsEndDoesNotWaitForThePause) {
  FailAll(/*retryable=*/true);
  Start(absl::InfiniteDuration());
  Remove(2);
  Tried(1);
  remover_.reset();
}

TEST_F(StubRemoverTest, TooManyAreDropped) {
  Start();
  RemoveSlow();
  constexpr pid_t kTooMuch = 2 + static_cast<pid_t>(StubRemover::kMaxJobs);
  for (pid_t pid = 2; pid <= kTooMuch; ++pid) Remove(pid);
  LetSlowGoOn();
  Tried(1 + StubRemover::kMaxJobs);
  const std::vector<pid_t> tried = TriedSoFar();
  EXPECT_EQ(tried.size(), 1 + StubRemover::kMaxJobs);
  EXPECT_THAT(tried, Not(Contains(kTooMuch)));
  // There is room again.
  Remove(kTooMuch);
  EXPECT_THAT(TriedSoFar(), Contains(kTooMuch));
}

// Its room may hold the stub of the next attach by then.
TEST_F(StubRemoverTest, WhoIsAttachedToAgainKeepsTheStubForGood) {
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

TEST_F(StubRemoverTest, WhoIsAttachedToTwiceIsLeftAloneUntilBothAreOver) {
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
  // It is free as soon as the removal has come back, with nothing else to do as well.
  while (!StubRemover::Reattach(&*remover_, kSlow).ok()) std::this_thread::yield();
  EXPECT_THAT(TriedSoFar(), ElementsAre(kSlow));
}

}  // namespace
}  // namespace rocattach
