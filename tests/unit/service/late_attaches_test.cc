#include "userspace/service/late_attaches.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "tests/await.h"

namespace rocattach {
namespace {

using Pids = std::vector<pid_t>;
using testing::ElementsAre;
constexpr absl::Duration kLong = absl::Hours(1);

// Records the attach calls, and answers that process 2 had no window.
class LateAttachesTest : public testing::Test {
 protected:
  LateAttaches::AttachFunction Attach() {
    return [this](const Pids& pids) {
      absl::MutexLock lock(&mutex_);
      batches_.push_back(pids);
      std::map<pid_t, absl::Status> failed;
      for (pid_t pid : pids) {
        if (pid == 2) failed[pid] = absl::NotFoundError("no window");
      }
      return failed;
    };
  }
  LateAttaches::DoneFunction Done() {
    return [this](const std::map<pid_t, absl::Status>& failed, bool is_last) {
      absl::MutexLock lock(&mutex_);
      failed_.insert(failed.begin(), failed.end());
      if (is_last) ++done_;
    };
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
  ProcessId Self() const { return {getpid(), *ReadStartTicks(getpid())}; }

  absl::Mutex mutex_;
  std::vector<Pids> batches_;
  std::map<pid_t, absl::Status> failed_;
  int done_ = 0;
};

TEST_F(LateAttachesTest, ARequestIsOneBatchAndIsAnswered) {
  LateAttaches late(Attach(), Done());
  late.Request({1, 2, 3});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Pids{1, 2, 3}));
  ASSERT_EQ(failed_.size(), 1u);
  EXPECT_EQ(failed_.begin()->first, 2);
}

TEST_F(LateAttachesTest, AnEmptyRequestIsAnsweredAsWell) {
  LateAttaches late(Attach(), Done());
  late.Request({});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_TRUE(failed_.empty());
}

TEST_F(LateAttachesTest, AProcessIsRetriedOnceAndSilently) {
  LateAttaches late(Attach(), Done());
  late.Retry(Self());
  AwaitBatches(1);
  late.Retry(Self());
  late.Request({7});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Pids{getpid()}, Pids{7}));
  EXPECT_EQ(done_, 1);
}

// Its process ID may belong to another process by now.
TEST_F(LateAttachesTest, AProcessThatIsGoneIsNotRetried) {
  LateAttaches late(Attach(), Done());
  ProcessId earlier = Self();
  --earlier.start_ticks;
  late.Retry(earlier);
  late.Request({7});
  AwaitDone();
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_THAT(batches_, ElementsAre(Pids{7}));
}

// A request is answered, not lost, whatever the thread was doing.
TEST_F(LateAttachesTest, RequestsThatHaveNotBegunAtTheEndAreCancelled) {
  absl::Notification begun, go_on;
  auto attach = [&](const Pids& pids) {
    if (!begun.HasBeenNotified()) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return Attach()(pids);
  };
  LateAttaches late(attach, Done());
  late.Enter(Self());
  testing_support::Await(begun, "the first attach to begin");
  late.Request({7, 8});
  std::thread stopper([&late] { EXPECT_TRUE(late.Stop(kLong)); });
  go_on.Notify();
  stopper.join();
  // Stopped before or after that batch ended: in both cases each request has an answer.
  EXPECT_EQ(done_, 1);
  if (batches_.size() == 1) {
    ASSERT_EQ(failed_.size(), 2u);
    EXPECT_TRUE(absl::IsCancelled(failed_.at(7))) << failed_.at(7);
  } else {
    EXPECT_THAT(batches_, ElementsAre(Pids{getpid()}, Pids{7, 8}));
  }
}

// A process that keeps its reader waiting delays only the processes of its own user.
TEST_F(LateAttachesTest, UsersDoNotWaitForEachOther) {
  constexpr uid_t kOther = 12345;
  const pid_t other = fork();
  if (other == 0) {
    if (setresuid(kOther, kOther, kOther) != 0) _exit(1);
    for (;;) pause();
  }
  ASSERT_GT(other, 0);
  int status = 0;
  while (UserOf(other) != kOther && waitpid(other, &status, WNOHANG) == 0) usleep(1000);
  if (UserOf(other) != kOther) GTEST_SKIP() << "needs to be root";
  absl::Notification begun, go_on;
  auto attach = [&](const Pids& pids) {
    if (pids == Pids{other}) {
      begun.Notify();
      go_on.WaitForNotification();
    }
    return Attach()(pids);
  };
  LateAttaches late(attach, Done());
  late.Request({other});
  testing_support::Await(begun, "the first attach to begin");
  late.Request({7});
  AwaitBatches(1);
  EXPECT_THAT(batches_, ElementsAre(Pids{7}));
  late.Request({other, 8});
  AwaitBatches(2);
  EXPECT_FALSE(late.Stop(absl::Milliseconds(1)));
  EXPECT_TRUE(absl::IsCancelled(failed_.at(other))) << "it has not begun again";
  go_on.Notify();
  EXPECT_TRUE(late.Stop(kLong));
  kill(other, SIGKILL);
  EXPECT_EQ(waitpid(other, &status, 0), other);
}

TEST_F(LateAttachesTest, DoesNothingAfterAStop) {
  LateAttaches late(Attach(), Done());
  EXPECT_TRUE(late.Stop(kLong));
  late.Request({7});
  EXPECT_TRUE(late.Stop(kLong));
  EXPECT_TRUE(batches_.empty());
}

}  // namespace
}  // namespace rocattach
