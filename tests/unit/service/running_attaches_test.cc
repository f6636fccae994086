// What becomes of processes that were asked for, with a made-up attach.
#include "userspace/service/running_attaches.h"
#include "tests/silent_observer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace rocattach {
namespace {

using Pids = std::vector<pid_t>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Notes what users are told.
class NotingObserver : public testing_support::SilentObserver {
 public:
  struct NotStarted {
    pid_t pid = 0;
    std::string why;
    bool awaited = false;
  };

  void OnNotAttached(pid_t pid, const absl::Status& why) override {
    absl::MutexLock lock(&mutex_);
    not_attached_[pid] = why;
  }
  void OnNotStarted(pid_t pid, const absl::Status& why, bool awaited) override {
    absl::MutexLock lock(&mutex_);
    not_started_.push_back({pid, std::string(why.message()), awaited});
  }
  void OnRunningDone() override {
    absl::MutexLock lock(&mutex_);
    ++done_;
  }

  void AwaitDone() {
    absl::MutexLock lock(&mutex_);
    auto is_done = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return done_ > 0; };
    mutex_.Await(absl::Condition(&is_done));
  }
  std::vector<NotStarted> AwaitNotStarted() {
    absl::MutexLock lock(&mutex_);
    auto is_there = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return !not_started_.empty();
    };
    mutex_.Await(absl::Condition(&is_there));
    return not_started_;
  }
  std::map<pid_t, absl::Status> not_attached() {
    absl::MutexLock lock(&mutex_);
    return not_attached_;
  }

 private:
  absl::Mutex mutex_;
  std::map<pid_t, absl::Status> not_attached_ ABSL_GUARDED_BY(mutex_);
  std::vector<NotStarted> not_started_ ABSL_GUARDED_BY(mutex_);
  int done_ ABSL_GUARDED_BY(mutex_) = 0;
};

class RunningAttachesTest : public testing::Test {
 protected:
  // A process without a runtime.
  void SetUp() override {
    process_ = fork();
    ASSERT_GE(process_, 0);
    if (process_ == 0) {
      for (;;) pause();
    }
  }
  void TearDown() override {
    if (attaches_ != nullptr) attaches_->Stop(absl::Hours(1));
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
  }

  // Without the kernel's side: nothing is followed, and no process has a window.
  void Make(bool wait_for_start = false) {
    RunningAttaches::Options options;
    options.wait_for_start = wait_for_start;
    attaches_ = std::make_unique<RunningAttaches>(nullptr, &history_, &observer_,
                                                  std::move(options));
    ASSERT_TRUE(attaches_->changed().status().ok());
  }
  // Attaches; `status` is that of each process.
  void Start(absl::Status status) {
    attaches_->Start([this, status](const Pids& pids) {
      absl::MutexLock lock(&mutex_);
      batches_.push_back(pids);
      std::map<pid_t, absl::Status> failed;
      if (!status.ok()) {
        for (pid_t pid : pids) failed[pid] = status;
      }
      return failed;
    });
  }
  void AwaitBatches(size_t count) {
    absl::MutexLock lock(&mutex_);
    auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
      return batches_.size() >= count;
    };
    mutex_.Await(absl::Condition(&enough));
  }
  std::vector<Pids> batches() {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  ProcessId Process() const { return {process_, *ReadStartTicks(process_)}; }
  static v1::WindowEvent Verdict(v1::WindowState state,
                                 v1::AttachReason reason = v1::ATTACH_REASON_NONE) {
    v1::WindowEvent verdict;
    verdict.set_state(state);
    verdict.set_reason(reason);
    return verdict;
  }

  pid_t process_ = -1;
  ProcessHistory history_;
  NotingObserver observer_;
  std::unique_ptr<RunningAttaches> attaches_;
  absl::Mutex mutex_;
  std::vector<Pids> batches_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(RunningAttachesTest, AProcessIsSettledByItsVerdict) {
  Make();
  EXPECT_TRUE(attaches_->settled()) << "nothing was asked for";
  Start(absl::OkStatus());
  attaches_->Attach({process_});
  observer_.AwaitDone();
  EXPECT_THAT(batches(), ElementsAre(Pids{process_}));
  EXPECT_FALSE(attaches_->settled()) << "its window is open";
  EXPECT_FALSE(attaches_->waits());
  attaches_->changed().Clear();
  attaches_->NoteVerdict(process_, Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_TRUE(attaches_->settled());
  EXPECT_TRUE(attaches_->changed().WaitFor(0)) << "the run looks at it again";
  EXPECT_THAT(observer_.not_attached(), IsEmpty());
}

TEST_F(RunningAttachesTest, AVerdictThatIsTriedAgainIsNotTheLastOne) {
  Make();
  Start(absl::OkStatus());
  attaches_->Attach({process_});
  attaches_->NoteVerdict(
      process_, Verdict(v1::WINDOW_STATE_REFUSED, v1::ATTACH_REASON_LOADER_BUSY));
  EXPECT_FALSE(attaches_->settled());
  attaches_->Retry(Process());
  AwaitBatches(2);
  attaches_->NoteVerdict(process_, Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_TRUE(attaches_->settled());
}

// The recorder starts before attaches can begin.
TEST_F(RunningAttachesTest, ARetryBeforeTheStartIsIgnored) {
  Make();
  attaches_->Retry(Process());
  Start(absl::OkStatus());
  attaches_->Attach({process_});
  observer_.AwaitDone();
  EXPECT_THAT(batches(), ElementsAre(Pids{process_}));
}

TEST_F(RunningAttachesTest, AProcessWithoutAWindowIsReportedAndRemembered) {
  Make();
  Start(absl::FailedPreconditionError("it is no GPU process"));
  attaches_->Attach({process_});
  observer_.AwaitDone();
  EXPECT_TRUE(attaches_->settled());
  EXPECT_TRUE(attaches_->changed().WaitFor(0));
  const auto not_attached = observer_.not_attached();
  ASSERT_EQ(not_attached.count(process_), 1u);
  EXPECT_EQ(not_attached.at(process_).message(), "it is no GPU process");
  EXPECT_THAT(history_.Find(process_).ShortDebugString(),
              HasSubstr("it is no GPU process"));
}

// Nobody can tell it from another process of its number.
TEST_F(RunningAttachesTest, AProcessThatHasEndedIsReportedAndNotRemembered) {
  constexpr pid_t kNobody = 5'000'000;  // above the kernel's limit
  Make();
  Start(absl::NotFoundError("it has ended"));
  attaches_->Attach({kNobody});
  observer_.AwaitDone();
  EXPECT_EQ(observer_.not_attached().count(kNobody), 1u);
  EXPECT_EQ(history_.processes(), 0u);
}

TEST_F(RunningAttachesTest, WithoutAWaitAProcessThatCannotBeEnteredNowHasFailed) {
  Make();
  Start(absl::AbortedError("every thread computes"));
  attaches_->Attach({process_});
  observer_.AwaitDone();
  EXPECT_EQ(observer_.not_attached().count(process_), 1u);
  EXPECT_FALSE(attaches_->waits());
}

TEST_F(RunningAttachesTest, WithAWaitItIsTriedAgainUntilItsVerdict) {
  Make(/*wait_for_start=*/true);
  Start(absl::AbortedError("every thread computes"));
  attaches_->Enter(Process());
  const auto not_started = observer_.AwaitNotStarted();
  ASSERT_EQ(not_started.size(), 1u);
  EXPECT_EQ(not_started[0].pid, process_);
  EXPECT_EQ(not_started[0].why, "every thread computes");
  EXPECT_TRUE(not_started[0].awaited);
  EXPECT_TRUE(attaches_->waits());
  EXPECT_THAT(observer_.not_attached(), IsEmpty());
  while (batches().size() < 3) attaches_->Poll();
  EXPECT_EQ(observer_.AwaitNotStarted().size(), 1u) << "it is said once";
  attaches_->NoteVerdict(process_, Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_THAT(observer_.not_attached(), IsEmpty());
}

TEST_F(RunningAttachesTest, WithAWaitAProcessWithoutARuntimeIsNotEnteredYet) {
  Make(/*wait_for_start=*/true);
  Start(absl::OkStatus());
  attaches_->Attach({process_});
  observer_.AwaitDone();
  EXPECT_THAT(batches(), IsEmpty());
  const auto not_started = observer_.AwaitNotStarted();
  ASSERT_EQ(not_started.size(), 1u);
  EXPECT_TRUE(not_started[0].awaited);
  EXPECT_TRUE(attaches_->waits());
  attaches_->NoteWindow(process_);
  EXPECT_FALSE(attaches_->waits()) << "it has its window";
}

TEST_F(RunningAttachesTest, NothingHasToBeStartedToBeStopped) {
  Make();
  attaches_->Stop(absl::Hours(1));
  attaches_->DetachListeners();
  EXPECT_TRUE(attaches_->settled());
}

}  // namespace
}  // namespace rocattach
