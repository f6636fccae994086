// Outcomes for the processes of attach requests, with a fake attach.
#include "userspace/service/running_attaches.h"

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
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "tests/await.h"

namespace rocattach {
namespace {

using Pids = std::vector<pid_t>;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// Records the user-visible events.
class NotingObserver : public WatcherObserver {
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
    const auto is_done = [this] {
      absl::MutexLock lock(&mutex_);
      return done_ > 0;
    };
    testing_support::Await(is_done, "the end of the attaches");
  }
  std::vector<NotStarted> AwaitNotStarted() {
    const auto is_there = [this] {
      absl::MutexLock lock(&mutex_);
      return !not_started_.empty();
    };
    testing_support::Await(is_there, "a process that was not started");
    absl::MutexLock lock(&mutex_);
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
  // Forks a process without a runtime.
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

  // Without the kernel side: no process is followed, and none has a window.
  void Make(bool wait_for_start = false) {
    RunningAttaches::Options options;
    options.wait_for_start = wait_for_start;
    attaches_ = std::make_unique<RunningAttaches>(nullptr, &history_, &observer_,
                                                  std::move(options));
    ASSERT_TRUE(attaches_->changed().status().ok());
  }
  // Starts with a fake attach that gives every process the status `status`.
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
    const auto enough = [&] { return batches().size() >= count; };
    testing_support::Await(enough, absl::StrCat(count, " batches"));
  }
  std::vector<Pids> batches() {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  ProcessId Process() const { return {process_, *ReadStartTicks(process_)}; }
  v1::Process Message() const {
    v1::Process process;
    process.set_pid(static_cast<uint32_t>(process_));
    return process;
  }
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
  attaches_->OnVerdict(Message(), Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_TRUE(attaches_->settled());
  EXPECT_TRUE(attaches_->changed().WaitFor(0)) << "the run looks at it again";
  EXPECT_THAT(observer_.not_attached(), IsEmpty());
}

TEST_F(RunningAttachesTest, AVerdictThatIsTriedAgainIsNotTheLastOne) {
  Make();
  Start(absl::OkStatus());
  attaches_->Attach({process_});
  attaches_->OnVerdict(
      Message(), Verdict(v1::WINDOW_STATE_REFUSED, v1::ATTACH_REASON_LOADER_BUSY));
  EXPECT_FALSE(attaches_->settled());
  attaches_->Retry(Process());
  AwaitBatches(2);
  attaches_->OnVerdict(Message(), Verdict(v1::WINDOW_STATE_ATTACHED));
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

// It cannot be told from another process with its number.
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
  const auto tried_again = [&] {
    attaches_->Poll();
    return batches().size() >= 3;
  };
  testing_support::Await(tried_again, "the third try");
  EXPECT_EQ(observer_.AwaitNotStarted().size(), 1u) << "it is said once";
  attaches_->OnVerdict(Message(), Verdict(v1::WINDOW_STATE_ATTACHED));
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
  attaches_->OnWindow(process_);
  EXPECT_FALSE(attaches_->waits()) << "it has its window";
}

TEST_F(RunningAttachesTest, CanBeStoppedWithoutHavingStarted) {
  Make();
  attaches_->Stop(absl::Hours(1));
  attaches_->DetachListeners();
  EXPECT_TRUE(attaches_->settled());
}

}  // namespace
}  // namespace rocattach
