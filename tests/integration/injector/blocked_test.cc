// Attaches on threads blocked in a system call: the call ends as without an attach.
#include <errno.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <fstream>
#include <functional>
#include <ostream>
#include <string>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "injector/attach.h"
#include "injector/process/blocked_thread.h"
#include "tests/integration/injector/target_process.h"

namespace rocattach {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string CallName(const testing::TestParamInfo<const char*>& test) {
  return absl::StrReplaceAll(test.param, {{"-", "_"}});
}

class BlockedCallTest : public testing::Test {
 protected:
  // Starts a target, and returns when its thread is blocked in the call.
  static void Start(TargetProcess* target, const std::string& call,
                    std::function<void()> prepare = nullptr) {
    TargetProcess::Options options;
    options.program = BlockedCallsPath();
    options.mode = call;
    options.prepare = std::move(prepare);
    ASSERT_TRUE(target->Start(options));
    ASSERT_TRUE(target->WaitForState('S'));
  }

  static AttachRequest RequestOf(const TargetProcess& target) {
    AttachRequest request = target.Request();
    request.point.blocked = true;
    return request;
  }

  static AttachOutcome Attach(const TargetProcess& target) {
    AttachRequest request = RequestOf(target);
    return AttachBlockedThread(request);
  }

  // Returns the target's output without an attach.
  static std::string Native(const std::string& call) {
    TargetProcess target;
    Start(&target, call);
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output();
    return target.output();
  }
};

class BlockedTest : public BlockedCallTest,
                    public testing::WithParamInterface<const char*> {};

TEST_P(BlockedTest, TheCallEndsAsWithoutUs) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, GetParam()));
  const AttachOutcome outcome = Attach(target);
  ASSERT_TRUE(outcome.ok()) << AttachReasonName(outcome.reason) << ": "
                            << outcome.detail;
  // The thread is still blocked, or blocked again.
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  EXPECT_TRUE(target.WaitForState('S'));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_EQ(target.output(), Native(GetParam()));
  EXPECT_THAT(target.output(), HasSubstr("early=0"));
}

INSTANTIATE_TEST_SUITE_P(Calls, BlockedTest,
                         testing::Values("read", "readv", "poll", "ppoll", "select",
                                         "pselect", "futex", "wait4", "waitid", "pause",
                                         "accept", "recvfrom", "recvmsg"),
                         CallName);

// Calls that end by their own timeout, measured from their first start.
class TimeoutTest : public BlockedTest {};

TEST_P(TimeoutTest, IsNeitherCutNorLengthened) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, GetParam()));
  const AttachOutcome outcome = Attach(target);
  ASSERT_TRUE(outcome.ok()) << AttachReasonName(outcome.reason) << ": "
                            << outcome.detail;
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  // The line comes without the flag; Finish() then lets the second thread end.
  EXPECT_THAT(target.ReadLine(), HasSubstr("early=0"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

INSTANTIATE_TEST_SUITE_P(Calls, TimeoutTest,
                         testing::Values("poll-timeout", "ppoll-timeout",
                                         "futex-timeout", "nanosleep",
                                         "clock_nanosleep"),
                         CallName);

// epoll_wait reports an interruption to the program, whatever the injector does.
TEST_F(BlockedTest, ACallThatWouldBeInterruptedIsNotUsed) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, "epoll_wait"));
  const AttachOutcome outcome = Attach(target);
  EXPECT_EQ(outcome.reason, AttachReason::kNoSafePoint) << outcome.detail;
  EXPECT_FALSE(outcome.target_modified);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
  EXPECT_THAT(target.output(), HasSubstr("epoll_wait result=1 early=0"));
  EXPECT_EQ(target.Report(), "");
}

// The thread may have been in another call when the threads were inspected.
TEST_F(BlockedTest, AThreadThatHasGoneOnToSuchACallIsNotStopped) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, "epoll_wait"));
  const AttachOutcome outcome = AttachOnOwnThread(RequestOf(target));
  EXPECT_EQ(outcome.reason, AttachReason::kNotAtWindow) << outcome.detail;
  EXPECT_TRUE(outcome.retryable);
  EXPECT_FALSE(outcome.target_modified);
  EXPECT_EQ(outcome.stopped_ns, 0u);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
  EXPECT_THAT(target.output(), HasSubstr("epoll_wait result=1 early=0"));
  EXPECT_EQ(target.Report(), "");
}

// fork holds the arenas that it has already locked, for which dlopen would wait.
TEST_F(BlockedTest, AThreadThatWaitsForALockOfTheCLibraryIsNotUsed) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, "fork"));
  AttachOutcome outcome = Attach(target);
  EXPECT_EQ(outcome.reason, AttachReason::kNoSafePoint) << outcome.detail;
  EXPECT_FALSE(outcome.target_modified);
  // Nor is it used if it has begun to wait since the threads were inspected.
  outcome = AttachOnOwnThread(RequestOf(target));
  EXPECT_EQ(outcome.reason, AttachReason::kNotAtWindow) << outcome.detail;
  EXPECT_EQ(outcome.stopped_ns, 0u);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
  EXPECT_EQ(target.output(), Native("fork"));
  EXPECT_EQ(target.Report(), "");
}

// If the service has no descriptor left, the outcome says that the service is at fault.
TEST_F(BlockedTest, LackOfDescriptorsIsNotReportedAsAnExit) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, "read"));
  AttachOutcome outcome;
  {
    rlimit limit = {};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit none = {.rlim_cur = 3, .rlim_max = limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    const absl::Cleanup restore = [&] { setrlimit(RLIMIT_NOFILE, &limit); };
    outcome = Attach(target);
  }
  EXPECT_EQ(outcome.reason, AttachReason::kServiceResources) << outcome.detail;
  EXPECT_EQ(outcome.error, EMFILE);
  EXPECT_TRUE(outcome.retryable);
  EXPECT_FALSE(outcome.target_modified);
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
}

struct SignalCase {
  const char* call;
  int signal;
  bool ends;  // true if the handler ends the call with EINTR
};

std::ostream& operator<<(std::ostream& out, const SignalCase& test) {
  return out << test.call << " " << test.signal;
}

// The kernel decides by the call and by SA_RESTART, which is set for the handler of
// SIGUSR1 and not for that of SIGUSR2.
class SignalledTest : public BlockedCallTest,
                      public testing::WithParamInterface<SignalCase> {
 protected:
  // Sends the signal, and ends the target once its handler has run.
  static void Signal(TargetProcess* target) {
    ASSERT_EQ(kill(target->pid(), GetParam().signal), 0);
    EXPECT_EQ(target->ReadLine(), "handled");
    if (GetParam().ends) {
      EXPECT_THAT(target->ReadLine(), HasSubstr("result=-4 "));
    }
    target->Finish();
    EXPECT_TRUE(target->Intact()) << target->output() << " status " << target->status();
    EXPECT_THAT(target->output(), Not(HasSubstr("result=-4 ")));
  }
};

TEST_P(SignalledTest, NobodyAttaches) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, GetParam().call));
  Signal(&target);
}

TEST_P(SignalledTest, TheSignalComesDuringTheAttach) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, GetParam().call,
                                [] { setenv("ROCATTACH_TEST_SLEEP_MSEC", "300", 1); }));
  const AttachOutcome outcome = Attach(target);
  ASSERT_TRUE(outcome.ok()) << AttachReasonName(outcome.reason) << ": "
                            << outcome.detail;
  // The collector's start function sleeps.
  ASSERT_THAT(target.WaitForReport(), HasSubstr("started"));
  Signal(&target);
  EXPECT_THAT(target.Report(), HasSubstr("ended"));
}

INSTANTIATE_TEST_SUITE_P(Calls, SignalledTest,
                         testing::Values(SignalCase{"pause", SIGUSR1, true},
                                         SignalCase{"read", SIGUSR1, false},
                                         SignalCase{"read", SIGUSR2, true},
                                         SignalCase{"poll", SIGUSR1, true},
                                         SignalCase{"select", SIGUSR1, true},
                                         SignalCase{"futex", SIGUSR1, false},
                                         SignalCase{"futex", SIGUSR2, true}),
                         [](const auto& test) {
                           return absl::StrCat(
                               test.param.call, "_",
                               test.param.signal == SIGUSR1 ? "restarting" : "plain");
                         });

// A signal that arrives while the thread is stopped, before anything has been changed.
class QueuedTest : public BlockedCallTest {
 protected:
  static AttachOutcome AttachAndSend(const TargetProcess& target,
                                     const std::function<void()>& send) {
    AttachRequest request = RequestOf(target);
    request.callbacks.on_stopped = send;
    return AttachOnOwnThread(request);
  }
};

TEST_F(QueuedTest, ASignalThatIsOnItsWayIsNotOvertaken) {
  for (const bool to_thread : {true, false}) {
    TargetProcess target;
    ASSERT_NO_FATAL_FAILURE(Start(&target, "pause"));
    const AttachOutcome outcome = AttachAndSend(target, [&] {
      ASSERT_EQ(to_thread ? tgkill(target.pid(), target.tid(), SIGUSR1)
                          : kill(target.pid(), SIGUSR1),
                0);
    });
    EXPECT_EQ(outcome.reason, AttachReason::kNotAtWindow) << outcome.detail;
    EXPECT_TRUE(outcome.retryable);
    EXPECT_FALSE(outcome.target_modified);
    EXPECT_EQ(target.ReadLine(), "handled");
    target.Finish();
    EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
    EXPECT_THAT(target.output(), HasSubstr("pause result=-4"));
    EXPECT_EQ(target.Report(), "");
  }
}

TEST_F(QueuedTest, ASignalThatTheThreadBlocksDoesNotMatter) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, "read"));
  const AttachOutcome outcome =
      AttachAndSend(target, [&] { ASSERT_EQ(kill(target.pid(), SIGHUP), 0); });
  EXPECT_TRUE(outcome.ok()) << AttachReasonName(outcome.reason) << ": "
                            << outcome.detail;
  EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_THAT(target.output(), HasSubstr("read result=1"));
}

// Another thread of the program cancels the thread, which must not end while it holds a
// lock of the loader or of the collector.
class CancelledTest : public testing::TestWithParam<const char*> {};

TEST_P(CancelledTest, TheThreadEndsBehindTheStub) {
  TargetProcess target;
  TargetProcess::Options options;
  options.program = CancelledPath();
  options.prepare = [] { setenv(GetParam(), "300", 1); };
  ASSERT_TRUE(target.Start(options));
  ASSERT_TRUE(target.WaitForState('S'));
  AttachRequest request = target.Request();
  request.point.blocked = true;
  const AttachOutcome outcome = AttachOnOwnThread(request);
  ASSERT_TRUE(outcome.ok()) << AttachReasonName(outcome.reason) << ": "
                            << outcome.detail;
  // The thread sleeps in dlopen, or in the start function.
  ASSERT_NE(target.WaitForReport(), "");
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output() << " status " << target.status();
  EXPECT_THAT(target.Report(), HasSubstr("started"));
  EXPECT_THAT(target.Report(), HasSubstr("ended"));
}

INSTANTIATE_TEST_SUITE_P(Sleeps, CancelledTest,
                         testing::Values("ROCATTACH_TEST_LOAD_MSEC",
                                         "ROCATTACH_TEST_SLEEP_MSEC"),
                         [](const auto& test) {
                           const bool loads = absl::StrContains(test.param, "LOAD");
                           return std::string(loads ? "InDlopen"
                                                    : "InTheStartFunction");
                         });

// A process stopped by an operator stays stopped, and is entered when it continues.
TEST_F(BlockedTest, AStoppedProcessStaysStopped) {
  TargetProcess target;
  ASSERT_NO_FATAL_FAILURE(Start(&target, "read"));
  ASSERT_EQ(kill(target.pid(), SIGSTOP), 0);
  ASSERT_TRUE(target.WaitForState('T'));
  const AttachOutcome outcome = Attach(target);
  EXPECT_TRUE(target.WaitForState('T'));
  EXPECT_EQ(target.Report(), "");
  ASSERT_EQ(kill(target.pid(), SIGCONT), 0);
  if (outcome.ok()) {
    EXPECT_THAT(target.WaitForReport(), HasSubstr("started"));
  }
  target.Finish();
  EXPECT_TRUE(target.Intact()) << target.output();
  EXPECT_THAT(target.output(), HasSubstr("read result=1 early=0"));
}

}  // namespace
}  // namespace rocattach
