// Attach requests, their batches and outcomes, with a fake attach.
#include "userspace/service/late_attaches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "tests/await.h"

namespace rocattach {
namespace {

using Processes = std::vector<ProcessId>;
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

class LateAttachesTest : public testing::Test {
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
    LateAttaches::Options options;
    options.wait_for_start = wait_for_start;
    attaches_ = std::make_unique<LateAttaches>(nullptr, &history_, &observer_,
                                               std::move(options));
    ASSERT_TRUE(attaches_->changed().status().ok());
  }
  // Starts with a fake attach that gives every process the status `status`.
  void Start(absl::Status status) {
    attaches_->Start([this, status](const Processes& processes) {
      absl::MutexLock lock(&mutex_);
      batches_.push_back(processes);
      std::map<ProcessId, absl::Status> failed;
      if (!status.ok()) {
        for (const ProcessId& process : processes) failed[process] = status;
      }
      return failed;
    });
  }
  void AwaitBatches(size_t count) {
    const auto enough = [&] { return batches().size() >= count; };
    testing_support::Await(enough, absl::StrCat(count, " batches"));
  }
  std::vector<Processes> batches() {
    absl::MutexLock lock(&mutex_);
    return batches_;
  }
  ProcessId Process() const { return IdentityOf(process_); }
  v1::Process Message() const {
    v1::Process process;
    process.set_pid(static_cast<uint32_t>(process_));
    process.set_start_ticks(Process().start_ticks);
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
  std::unique_ptr<LateAttaches> attaches_;
  absl::Mutex mutex_;
  std::vector<Processes> batches_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(LateAttachesTest, AProcessIsSettledByItsVerdict) {
  Make();
  EXPECT_TRUE(attaches_->settled()) << "nothing was asked for";
  Start(absl::OkStatus());
  attaches_->Attach({Process()});
  observer_.AwaitDone();
  EXPECT_THAT(batches(), ElementsAre(Processes{Process()}));
  EXPECT_FALSE(attaches_->settled()) << "its window is open";
  EXPECT_FALSE(attaches_->waits());
  attaches_->changed().Clear();
  attaches_->OnVerdict(Message(), Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_TRUE(attaches_->settled());
  EXPECT_TRUE(attaches_->changed().WaitFor(0)) << "the run looks at it again";
  EXPECT_THAT(observer_.not_attached(), IsEmpty());
}

TEST_F(LateAttachesTest, AVerdictThatIsTriedAgainIsNotTheLastOne) {
  Make();
  Start(absl::OkStatus());
  attaches_->Attach({Process()});
  AwaitBatches(1);
  attaches_->OnVerdict(
      Message(), Verdict(v1::WINDOW_STATE_REFUSED, v1::ATTACH_REASON_LOADER_BUSY));
  EXPECT_FALSE(attaches_->settled());
  attaches_->Retry(Process());
  AwaitBatches(2);
  attaches_->OnVerdict(Message(), Verdict(v1::WINDOW_STATE_ATTACHED));
  EXPECT_TRUE(attaches_->settled());
}

// The recorder starts before attaches can begin.
TEST_F(LateAttachesTest, ARetryBeforeTheStartIsIgnored) {
  Make();
  attaches_->Retry(Process());
  Start(absl::OkStatus());
  attaches_->Attach({Process()});
  observer_.AwaitDone();
  EXPECT_THAT(batches(), ElementsAre(Processes{Process()}));
}

TEST_F(LateAttachesTest, AProcessWithoutAWindowIsReportedAndRemembered) {
  Make();
  Start(absl::FailedPreconditionError("it is no GPU process"));
  attaches_->Attach({Process()});
  observer_.AwaitDone();
  EXPECT_TRUE(attaches_->settled());
  EXPECT_TRUE(attaches_->changed().WaitFor(0));
  const auto not_attached = observer_.not_attached();
  ASSERT_EQ(not_attached.count(process_), 1u);
  EXPECT_EQ(not_attached.at(process_).message(), "it is no GPU process");
  EXPECT_THAT(history_.Find(process_).ShortDebugString(),
              HasSubstr("it is no GPU process"));
}

// It had ended before it could be identified.
TEST_F(LateAttachesTest, AProcessThatHasEndedIsReportedAndNotRemembered) {
  constexpr pid_t kNobody = 5'000'000;  // above the kernel's limit
  Make();
  Start(absl::NotFoundError("it has ended"));
  attaches_->Attach({IdentityOf(kNobody)});
  observer_.AwaitDone();
  EXPECT_EQ(observer_.not_attached().count(kNobody), 1u);
  EXPECT_EQ(history_.processes(), 0u);
}

TEST_F(LateAttachesTest, WithoutAWaitAProcessThatCannotBeEnteredNowHasFailed) {
  Make();
  Start(absl::AbortedError("every thread computes"));
  attaches_->Attach({Process()});
  observer_.AwaitDone();
  EXPECT_EQ(observer_.not_attached().count(process_), 1u);
  EXPECT_FALSE(attaches_->waits());
}

TEST_F(LateAttachesTest, WithAWaitItIsTriedAgainUntilItsVerdict) {
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

TEST_F(LateAttachesTest, WithAWaitAProcessWithoutARuntimeIsNotEnteredYet) {
  Make(/*wait_for_start=*/true);
  Start(absl::OkStatus());
  attaches_->Attach({Process()});
  observer_.AwaitDone();
  EXPECT_THAT(batches(), IsEmpty());
  const auto not_started = observer_.AwaitNotStarted();
  ASSERT_EQ(not_started.size(), 1u);
  EXPECT_TRUE(not_started[0].awaited);
  EXPECT_TRUE(attaches_->waits());
  attaches_->OnWindow(Process());
  EXPECT_FALSE(attaches_->waits()) << "it has its window";
}

TEST_F(LateAttachesTest, CanBeStoppedWithoutHavingStarted) {
  Make();
  attaches_->Stop(absl::Hours(1));
  attaches_->DetachListeners();
  EXPECT_TRUE(attaches_->settled());
}

// Records the attach calls, and answers that process 2
// had no window.
class LateBatchesTest : public testing::Test {
 protected:
  class DoneObserver : public WatcherObserver {
   public:
    explicit DoneObserver(LateBatchesTest* test) : test_(test) {}
    void OnNotAttached(pid_t pid, const absl::Status& why) override {
      absl::MutexLock lock(&test_->mutex_);
      test_->failed_[pid] = why;
    }
    void OnRunningDone() override {
      absl::MutexLock lock(&test_->mutex_);
      ++test_->done_;
    }

   private:
    LateBatchesTest* const test_;
  };

  std::map<ProcessId, absl::Status> Attach(const Processes& processes) {
    absl::MutexLock lock(&mutex_);
    batches_.push_back(processes);
    std::map<ProcessId, absl::Status> failed;
    for (const ProcessId& process : processes) {
      if (process.pid == 2) failed[process] = absl::NotFoundError("no window");
    }
    return failed;
  }
  void Start(LateAttaches* late) {
    late->Start([this](const Processes& processes) { return Attach(processes); });
  }
  // The first batch waits for `go_on`.
  void StartWithAPause(LateAttaches* late, absl::Notification* begun,
                       absl::Notification* go_on) {
    late->Start([this, begun, go_on](const Processes& processes) {
      if (!begun->HasBeenNotified()) {
        begun->Notify();
        go_on->WaitForNotification();
      }
      return Attach(processes);
    });
  }
  void AwaitBatches(size_t count) {
    auto enough = [&] {
      absl::MutexLock lock(&mutex_);
      return batches_.size() >= count;
    };
    testing_support::Await(enough, absl::StrCat(count, " batches"));
  }
  void AwaitDone() {
    auto is_done = [&] {
      absl::MutexLock lock(&mutex_);
      return done_ > 0;
    };
    testing_support::Await(is_done, "the end of the attaches");
  }
  ProcessId Self() const { return IdentityOf(getpid()); }
  // Processes that are only named: none of them is read.
  static ProcessId Named(pid_t pid) { return {pid, 1}; }

  absl::Mutex mutex_;
  std::vector<Processes> batches_;
  std::map<pid_t, absl::Status> failed_;
  int done_ = 0;
  ProcessHistory history_;
  DoneObserver observer_{this};
};

constexpr absl::Duration kLong = absl::Hours(1);

TEST_F(LateBatchesTest, ARequestIsOneBatchAndIsAnswered) {
  LateAttaches late(nullptr, &history_, &observer_, {});
  Start(&late);
  late.Attach({Named(1), Named(2), Named(3)});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Processes{Named(1), Named(2), Named(3)}));
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_.begin()->first, 2);
  EXPECT_EQ(done_, 1);
}

TEST_F(LateBatchesTest, AnEmptyRequestIsAnsweredAsWell) {
  LateAttaches late(nullptr, &history_, &observer_, {});
  Start(&late);
  late.Attach({});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(LateBatchesTest, AProcessIsRetriedOnceAndSilently) {
  LateAttaches late(nullptr, &history_, &observer_, {});
  late.Start([this](const Processes& processes) {
    (void)Attach(processes);
    std::map<ProcessId, absl::Status> failed;
    for (const ProcessId& process : processes) {
      if (process == Self()) failed[process] = absl::NotFoundError("no window");
    }
    return failed;
  });
  late.Retry(Self());
  AwaitBatches(1);
  late.Retry(Self());
  late.Attach({Named(7)});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Processes{Self()}, Processes{Named(7)}));
  EXPECT_EQ(done_, 1);
  EXPECT_THAT(failed_, IsEmpty());
}

// Its process ID may belong to another process by now.
TEST_F(LateBatchesTest, AProcessThatIsGoneIsNotRetried) {
  LateAttaches late(nullptr, &history_, &observer_, {});
  Start(&late);
  ProcessId earlier = Self();
  --earlier.start_ticks;
  late.Retry(earlier);
  late.Attach({Named(7)});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Processes{Named(7)}));
}

// A request is answered, not lost, whatever the thread was doing.
TEST_F(LateBatchesTest, RequestsThatHaveNotBegunAtTheEndAreCancelled) {
  absl::Notification begun, go_on;
  LateAttaches late(nullptr, &history_, &observer_, {});
  StartWithAPause(&late, &begun, &go_on);
  late.Enter(Self());
  testing_support::Await(begun, "the first attach to begin");
  late.Attach({Named(7), Named(8)});
  std::thread stopper([&late] { EXPECT_TRUE(late.Stop(kLong)); });
  go_on.Notify();
  stopper.join();
  // Stopped before or after that batch ended: in both cases each request has an answer.
  EXPECT_EQ(done_, 1);
  if (batches_.size() == 1) {
    ASSERT_EQ(failed_.size(), 2u);
    EXPECT_TRUE(absl::IsCancelled(failed_.at(7))) << failed_.at(7);
  } else {
    EXPECT_THAT(batches_,
                ElementsAre(Processes{Self()}, Processes{Named(7), Named(8)}));
  }
}

// Several ticks of a service may pass while an attach waits for a call of the runtime.
TEST_F(LateBatchesTest, WhatIsAddedDuringABatchIsOneBatch) {
  absl::Notification begun, go_on;
  LateAttaches late(nullptr, &history_, &observer_, {});
  StartWithAPause(&late, &begun, &go_on);
  late.Attach({Named(5'000'001)});
  testing_support::Await(begun, "the first attach to begin");
  late.Attach({Named(5'000'002)});
  late.Attach({Named(5'000'003)});
  go_on.Notify();
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Processes{Named(5'000'001)},
                                    Processes{Named(5'000'002), Named(5'000'003)}));
  EXPECT_EQ(done_, 1) << "once all have been tried";
}

// A process that keeps its reader waiting delays only the processes of its own user.
TEST_F(LateBatchesTest, UsersDoNotWaitForEachOther) {
  constexpr uid_t kOther = 12345;
  const pid_t pid = fork();
  if (pid == 0) {
    if (setresuid(kOther, kOther, kOther) != 0) _exit(1);
    for (;;) pause();
  }
  ASSERT_GT(pid, 0);
  int status = 0;
  while (UserOf(pid) != kOther && waitpid(pid, &status, WNOHANG) == 0) usleep(1000);
  if (UserOf(pid) != kOther) GTEST_SKIP() << "needs to be root";
  const ProcessId other = IdentityOf(pid);
  absl::Notification begun, go_on;
  LateAttaches late(nullptr, &history_, &observer_, {});
  late.Start([&](const Processes& processes) {
    if (processes == Processes{other}) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return Attach(processes);
  });
  late.Attach({other});
  testing_support::Await(begun, "the first attach to begin");
  late.Attach({Named(5'000'007)});
  AwaitBatches(1);
  EXPECT_THAT(batches_, ElementsAre(Processes{Named(5'000'007)}));
  const ProcessId child = Self();
  late.Attach({other, child});
  AwaitBatches(2);
  EXPECT_FALSE(late.Stop(absl::Milliseconds(1)));
  EXPECT_TRUE(absl::IsCancelled(failed_.at(pid))) << "it has not begun again";
  go_on.Notify();
  EXPECT_TRUE(late.Stop(kLong));
  kill(pid, SIGKILL);
  EXPECT_EQ(waitpid(pid, &status, 0), pid);
}

TEST_F(LateBatchesTest, DoesNothingAfterAStop) {
  LateAttaches late(nullptr, &history_, &observer_, {});
  Start(&late);
  EXPECT_TRUE(late.Stop(kLong));
  late.Attach({Named(7)});
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_TRUE(batches_.empty());
}

}  // namespace
}  // namespace rocattach
