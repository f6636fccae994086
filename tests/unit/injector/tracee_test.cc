#include "injector/tracing/tracee.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/ptrace.h>

#include <thread>

#include "bpf/watch_events.h"
#include "tests/unit/injector/fake_trace_calls.h"

namespace rocattach {
namespace {

using testing_support::FakeTraceCalls;

constexpr pid_t kPid = 100, kTid = 101;
constexpr uint64_t kMsec = 1'000'000;

class TraceeTest : public testing::Test {
 protected:
  // The gate outlives each test: tracees pass it again when they are destroyed.
  void SetUp() override {
    gate_.tracees = 0;
    Tracee::UseGate(&gate_);
  }

  void SeizeAndInterrupt() {
    ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
    ASSERT_TRUE(tracee_.Interrupt().ok());
  }
  StepResult Wait(uint64_t msec, bool shares_cpu = false) {
    return tracee_.WaitForStop(calls_.NowNs() + msec * kMsec, shares_cpu,
                               [this] { ++long_waits_; });
  }

  static inline TraceGate gate_;
  FakeTraceCalls calls_;
  Tracee tracee_{calls_};
  int long_waits_ = 0;
};

TEST_F(TraceeTest, AStopThatComesAtOnceNeedsNoAlarm) {
  calls_.Plan(5'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  EXPECT_TRUE(tracee_.stopped());
  EXPECT_EQ(calls_.alarms, 0);
  EXPECT_GT(calls_.yields, 0);
  EXPECT_EQ(long_waits_, 0);
  EXPECT_EQ(gate_.tracees, 1u);
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
  EXPECT_EQ(tracee_.released_ns(), calls_.NowNs());
  EXPECT_FALSE(tracee_.tracer_must_exit());
  EXPECT_EQ(gate_.tracees, 0u);
}

TEST_F(TraceeTest, TheTracerSleepsIfTheThreadNeedsItsProcessor) {
  calls_.Plan(50'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100, /*shares_cpu=*/true).ok());
  EXPECT_EQ(calls_.yields, 0);
  EXPECT_EQ(calls_.alarms, 1);
  EXPECT_FALSE(calls_.is_armed());
}

TEST_F(TraceeTest, ALongWaitIsReportedOnce) {
  calls_.Plan(70 * kMsec, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  EXPECT_EQ(long_waits_, 1);
  EXPECT_FALSE(calls_.is_armed());
}

TEST_F(TraceeTest, WithoutAnAlarmItSleeps) {
  calls_.has_alarm = false;
  calls_.Plan(2 * kMsec, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  EXPECT_GT(calls_.sleeps, 0);
}

TEST_F(TraceeTest, TheSignalThatWasOnItsWayIsDeliveredByTheRelease) {
  calls_.Plan(1'000, WaitStatus::SignalStop(SIGUSR1));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{SIGUSR1});
}

TEST_F(TraceeTest, AStopOfTheWholeProcessIsNotASignalToDeliver) {
  calls_.Plan(1'000, WaitStatus::GroupStop(SIGSTOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  EXPECT_TRUE(tracee_.stopped());
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
}

TEST_F(TraceeTest, AnExitWhileWaitingEndsTheWaitAndIsCollected) {
  calls_.Plan(1 * kMsec, WaitStatus::Exited(3));
  SeizeAndInterrupt();
  const StepResult result = Wait(100);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kTargetExited);
  EXPECT_EQ(calls_.collected, 1);
  EXPECT_FALSE(tracee_.stopped());
  EXPECT_EQ(gate_.tracees, 0u);
  tracee_.Release();
  EXPECT_TRUE(calls_.detached.empty()) << "there is nothing to detach";
}

TEST_F(TraceeTest, TheExitOfOurOwnChildIsNotOursToCollect) {
  calls_.Plan(1'000, WaitStatus::Signalled(SIGKILL));
  calls_.thread_status->parent = calls_.Self();
  ASSERT_TRUE(tracee_.Seize(kPid, kPid).ok());
  ASSERT_TRUE(tracee_.Interrupt().ok());
  EXPECT_FALSE(Wait(100).ok());
  EXPECT_EQ(calls_.collected, 0);
}

TEST_F(TraceeTest, AThreadThatIsNoTraceeAnyMoreIsGone) {
  SeizeAndInterrupt();
  calls_.peek_error = ECHILD;
  const StepResult result = Wait(100);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kTargetExited);
  EXPECT_EQ(result.failure().error, ECHILD);
}

// Signals end a blocking wait without a status (EINTR): it continues to the deadline.
TEST_F(TraceeTest, InterruptedWaitsGoOnUntilTheDeadline) {
  SeizeAndInterrupt();
  const StepResult result = Wait(100);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kStopTimeout);
  EXPECT_TRUE(result.failure().retryable);
  EXPECT_GE(calls_.elapsed_ns(), 100 * kMsec);
  EXPECT_LT(calls_.elapsed_ns(), 130 * kMsec);
  EXPECT_LT(calls_.looks, 100) << "it must not spin";
  EXPECT_FALSE(calls_.is_armed());
  tracee_.Release();
  EXPECT_TRUE(tracee_.tracer_must_exit());
  EXPECT_TRUE(calls_.detached.empty());
  EXPECT_EQ(gate_.tracees, 1u) << "until the end of this thread";
}

TEST_F(TraceeTest, TimeInWhichTheMachineStoodStillDoesNotCount) {
  calls_.PlanStandstill(10 * kMsec, 5'000 * kMsec);
  calls_.Plan(80 * kMsec, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  EXPECT_TRUE(Wait(100).ok()) << "80 ms, and 5 s of standstill";
  EXPECT_GE(calls_.elapsed_ns(), 5'000 * kMsec);
}

TEST_F(TraceeTest, AReleaseOfARunningThreadAsksForAStopFirst) {
  calls_.Plan(10'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  tracee_.Release();
  EXPECT_EQ(calls_.interrupts, 1);
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
  EXPECT_FALSE(tracee_.tracer_must_exit());
}

TEST_F(TraceeTest, AStopThatComesLateIsReleasedByTheNextTry) {
  calls_.Plan(100 * kMsec, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  EXPECT_FALSE(tracee_.TryRelease(10 * kMsec));
  EXPECT_EQ(gate_.tracees, 1u);
  calls_.Advance(100 * kMsec);
  EXPECT_TRUE(tracee_.TryRelease(10 * kMsec));
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
}

TEST_F(TraceeTest, DetachOfADyingThreadCollectsIt) {
  calls_.Plan(1'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  calls_.detach_error = ESRCH;
  calls_.Plan(calls_.elapsed_ns() + 1 * kMsec, WaitStatus::Signalled(SIGKILL));
  tracee_.Release();
  EXPECT_EQ(calls_.collected, 1);
  EXPECT_EQ(tracee_.released_ns(), 0u);
  EXPECT_FALSE(tracee_.tracer_must_exit());
  EXPECT_EQ(gate_.tracees, 0u);
}

TEST_F(TraceeTest, ADyingThreadThatDoesNotEndIsLeftToTheEndOfTheTracer) {
  calls_.Plan(1'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  calls_.detach_error = ESRCH;
  tracee_.Release();
  EXPECT_EQ(calls_.collected, 0);
  EXPECT_TRUE(tracee_.tracer_must_exit());
}

TEST_F(TraceeTest, ACallThatFindsTheThreadGoneSaysSo) {
  calls_.Plan(1'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  calls_.registers_error = ESRCH;
  calls_.Plan(calls_.elapsed_ns(), WaitStatus::Signalled(SIGKILL));
  user_regs_struct registers = {};
  const StepResult result = tracee_.ReadRegisters(&registers);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kTargetExited);
  EXPECT_EQ(result.failure().error, ESRCH);
  EXPECT_EQ(calls_.collected, 1);
}

TEST_F(TraceeTest, OtherErrnosOfRegistersAreKept) {
  calls_.Plan(1'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  calls_.registers_error = EIO;
  const StepResult result = tracee_.SetInstructionPointer(RemoteAddress(0x1000));
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kRegisters);
  EXPECT_EQ(result.failure().error, EIO);
  EXPECT_TRUE(tracee_.stopped());
}

TEST_F(TraceeTest, CodeOf32BitsIsNotSupported) {
  calls_.Plan(1'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  calls_.code_segment = 0x23;
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  user_regs_struct registers = {};
  const StepResult result = tracee_.ReadRegisters(&registers);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kUnsupported);
}

TEST_F(TraceeTest, DispatchedSystemCallsAreReported) {
  calls_.Plan(1'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  SeizeAndInterrupt();
  ASSERT_TRUE(Wait(100).ok());
  EXPECT_TRUE(tracee_.CheckNotDispatched().ok());
  calls_.dispatched = true;
  StepResult result = tracee_.CheckNotDispatched();
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kSystemCallDispatch);
  calls_.dispatch_error = EIO;  // a kernel that does not know the request
  EXPECT_TRUE(tracee_.CheckNotDispatched().ok());
}

TEST_F(TraceeTest, APokeKeepsTheBytesBehindIt) {
  calls_.memory = {{0x1000, 0x1111111111111111}, {0x1008, 0x2222222222222222}};
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  ASSERT_TRUE(tracee_.Poke(RemoteAddress(0x1000), std::string(10, '\0')).ok());
  EXPECT_EQ(calls_.memory[0x1000], 0u);
  EXPECT_EQ(calls_.memory[0x1008], 0x2222222222220000u);
  calls_.Plan(0, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
}

TEST_F(TraceeTest, ASeizeThatFailsSaysWhy) {
  calls_.seize_error = ESRCH;
  StepResult result = tracee_.Seize(kPid, kTid);
  EXPECT_EQ(result.failure().reason, AttachReason::kTargetExited);
  calls_.seize_error = EPERM;
  calls_.thread_status->state = 'Z';
  result = tracee_.Seize(kPid, kTid);
  EXPECT_EQ(result.failure().reason, AttachReason::kTargetExited);
  calls_.thread_status->state = 'S';
  calls_.thread_status->tracer = 7;
  result = tracee_.Seize(kPid, kTid);
  EXPECT_EQ(result.failure().reason, AttachReason::kAlreadyTraced);
  EXPECT_EQ(result.failure().error, EPERM);
  // A policy on capabilities, or a security module: denial_test.cc tells them apart.
  calls_.thread_status->tracer = 0;
  for (int error : {EPERM, EACCES}) {
    calls_.seize_error = error;
    result = tracee_.Seize(kPid, kTid);
    EXPECT_EQ(result.failure().reason, AttachReason::kNotPermitted);
    EXPECT_EQ(result.failure().error, error);
    EXPECT_NE(result.failure().detail.find(strerrorname_np(error)), std::string::npos);
    EXPECT_FALSE(result.failure().retryable);
  }
  EXPECT_EQ(gate_.tracees, 0u);
}

TEST_F(TraceeTest, AThreadThatATracerHasJustLetGoIsSeized) {
  calls_.failing_seizes = 1;
  EXPECT_TRUE(tracee_.Seize(kPid, kTid).ok());
  EXPECT_EQ(calls_.seizes, 2);
  EXPECT_EQ(gate_.tracees, 1u);
  calls_.Plan(0, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
}

TEST_F(TraceeTest, NoThreadIsSeizedWhileTheGateIsClosed) {
  gate_.closed = 1;
  const StepResult result = tracee_.Seize(kPid, kTid);
  gate_.closed = 0;
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kStopTimeout);
  EXPECT_EQ(gate_.tracees, 0u);
}

TEST_F(TraceeTest, KeepDeliversSignalsAndLetsStopsLast) {
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  EXPECT_EQ(tracee_.Keep(), Tracee::Seen::kRunning);
  calls_.Plan(0, WaitStatus::SignalStop(SIGTERM));
  EXPECT_EQ(tracee_.Keep(), Tracee::Seen::kRunning);
  EXPECT_EQ(calls_.continued, std::vector<int>{SIGTERM});
  calls_.Plan(0, WaitStatus::GroupStop(SIGTSTP));
  EXPECT_EQ(tracee_.Keep(), Tracee::Seen::kRunning);
  EXPECT_EQ(calls_.listens, 1);
  // The same signal, sent by a process, is not the stop that the kernel side asks for.
  calls_.Plan(0, WaitStatus::SignalStop(ROCATTACH_STOP_SIGNAL));
  EXPECT_EQ(tracee_.Keep(), Tracee::Seen::kRunning);
  EXPECT_EQ(calls_.continued, (std::vector<int>{SIGTERM, ROCATTACH_STOP_SIGNAL}));
  calls_.signal_code = SI_KERNEL;
  calls_.Plan(0, WaitStatus::SignalStop(ROCATTACH_STOP_SIGNAL));
  EXPECT_EQ(tracee_.Keep(), Tracee::Seen::kHeld);
  EXPECT_TRUE(tracee_.stopped());
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{0}) << "the stop was ours";
}

TEST_F(TraceeTest, AwaitSleepsUntilTheStop) {
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  calls_.signal_code = SI_KERNEL;
  calls_.Plan(3 * kMsec, WaitStatus::SignalStop(ROCATTACH_STOP_SIGNAL));
  EXPECT_EQ(tracee_.Await(calls_.NowNs() + 5 * kMsec), Tracee::Seen::kHeld);
  EXPECT_LT(calls_.elapsed_ns(), 4 * kMsec);
  EXPECT_EQ(calls_.alarms, 1);
  EXPECT_FALSE(calls_.is_armed());
  EXPECT_EQ(calls_.sleeps + calls_.yields, 0);
}

TEST_F(TraceeTest, AwaitEndsAtTheDeadlineAndDeliversSignals) {
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  calls_.Plan(kMsec, WaitStatus::SignalStop(SIGTERM));
  EXPECT_EQ(tracee_.Await(calls_.NowNs() + 5 * kMsec), Tracee::Seen::kRunning);
  EXPECT_EQ(calls_.continued, std::vector<int>{SIGTERM});
  EXPECT_GE(calls_.elapsed_ns(), 5 * kMsec);
  EXPECT_FALSE(calls_.is_armed());
  calls_.has_alarm = false;
  EXPECT_EQ(tracee_.Await(calls_.NowNs() + 5 * kMsec), Tracee::Seen::kRunning);
  EXPECT_GT(calls_.sleeps, 0);
  EXPECT_GE(calls_.elapsed_ns(), 10 * kMsec);
}

// A running thread need not be stopped in order to be released.
TEST_F(TraceeTest, AReleaseByTheEndOfTheTracerAsksForNoStop) {
  std::thread([this] {
    ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
    tracee_.ReleaseByEnd();
    tracee_.Release();
    EXPECT_EQ(calls_.interrupts, 0);
    EXPECT_TRUE(calls_.detached.empty());
    EXPECT_TRUE(tracee_.tracer_must_exit());
    EXPECT_EQ(gate_.tracees, 1u) << "it is one until the end";
  }).join();
  EXPECT_EQ(gate_.tracees, 0u);
}

// The thread is kept stopped, and is then killed.
TEST_F(TraceeTest, TheEndOfAStoppedThreadIsNoticedAndCollected) {
  calls_.Plan(0, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  calls_.Plan(kMsec, WaitStatus::Signalled(SIGKILL));
  SeizeAndInterrupt();
  EXPECT_FALSE(tracee_.HasEnded()) << "before its stop is noticed";
  ASSERT_TRUE(Wait(100).ok());
  EXPECT_FALSE(tracee_.HasEnded());
  EXPECT_TRUE(tracee_.stopped());
  EXPECT_TRUE(calls_.continued.empty());
  calls_.Advance(kMsec);
  EXPECT_TRUE(tracee_.HasEnded());
  EXPECT_TRUE(tracee_.HasEnded()) << "and stays so";
  EXPECT_EQ(calls_.collected, 1);
  EXPECT_EQ(gate_.tracees, 0u);
  tracee_.Release();
  EXPECT_TRUE(calls_.detached.empty());
}

TEST_F(TraceeTest, KeepSeesTheEnd) {
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  calls_.Plan(0, WaitStatus::Exited(0));
  EXPECT_EQ(tracee_.Keep(), Tracee::Seen::kGone);
  EXPECT_EQ(calls_.collected, 1);
  EXPECT_EQ(gate_.tracees, 0u);
}

TEST_F(TraceeTest, AHeldThreadThatIsResumedIsSeizedAgain) {
  ASSERT_TRUE(tracee_.Seize(kPid, kTid).ok());
  calls_.signal_code = SI_KERNEL;
  calls_.Plan(0, WaitStatus::SignalStop(ROCATTACH_STOP_SIGNAL));
  ASSERT_EQ(tracee_.Keep(), Tracee::Seen::kHeld);
  tracee_.Resume(/*deliver=*/true);
  EXPECT_EQ(calls_.continued, std::vector<int>{ROCATTACH_STOP_SIGNAL});
  EXPECT_FALSE(tracee_.stopped());
  calls_.Plan(0, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  tracee_.Release();
  EXPECT_EQ(calls_.interrupts, 1);
}

// Runs a thread from a stop to a system call.
class TraceeRunTest : public TraceeTest {
 protected:
  void SetUp() override {
    TraceeTest::SetUp();
    calls_.Plan(5'000, WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
    SeizeAndInterrupt();
    ASSERT_TRUE(Wait(100).ok());
    calls_.system_call = {true, 0x1234, -EPERM};
  }
  StepResult Run(uint64_t msec) {
    return tracee_.RunToSystemCall(calls_.NowNs() + msec * kMsec, false, &stop_);
  }

  SystemCallStop stop_;
};

TEST_F(TraceeRunTest, StopsAtTheCall) {
  calls_.stops = {WaitStatus::SystemCallStop()};
  ASSERT_TRUE(Run(100).ok());
  EXPECT_TRUE(stop_.at_end);
  EXPECT_EQ(stop_.ip, 0x1234u);
  EXPECT_EQ(stop_.result, -EPERM);
  EXPECT_EQ(tracee_.pending_signal(), 0);
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
}

TEST_F(TraceeRunTest, SignalsAreDeliveredOnTheWay) {
  calls_.stops = {WaitStatus::SignalStop(SIGUSR1), WaitStatus::SignalStop(SIGTRAP),
                  WaitStatus::SystemCallStop()};
  ASSERT_TRUE(Run(100).ok());
  EXPECT_EQ(calls_.continued, (std::vector<int>{0, SIGUSR1, SIGTRAP}));
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
}

// The thread had stopped for a signal before the requested stop.
TEST_F(TraceeRunTest, TheStopThatWasRequestedIsPassed) {
  calls_.stops = {WaitStatus::PtraceEvent(PTRACE_EVENT_STOP),
                  WaitStatus::SystemCallStop()};
  ASSERT_TRUE(Run(100).ok());
  EXPECT_EQ(calls_.continued, (std::vector<int>{0, 0}));
}

TEST_F(TraceeRunTest, AStopOfTheProcessLasts) {
  calls_.stops = {WaitStatus::GroupStop(SIGSTOP)};
  StepResult result = Run(100);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kStopTimeout);
  EXPECT_TRUE(result.failure().retryable);
  EXPECT_EQ(calls_.continued, std::vector<int>{0});
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
}

TEST_F(TraceeRunTest, AThreadThatMakesNoCallIsReleased) {
  StepResult result = Run(10);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kStopTimeout);
  EXPECT_FALSE(tracee_.stopped());
  calls_.Plan(calls_.elapsed_ns(), WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  tracee_.Release();
  EXPECT_EQ(calls_.interrupts, 2);
  EXPECT_EQ(calls_.detached, std::vector<int>{0});
  EXPECT_EQ(gate_.tracees, 0u);
}

TEST_F(TraceeRunTest, EndlessSignalsDoNotDelayTheService) {
  calls_.stops.assign(100'000, WaitStatus::SignalStop(SIGALRM));
  StepResult result = Run(1);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kStopTimeout);
  tracee_.Release();
  EXPECT_EQ(calls_.detached, std::vector<int>{SIGALRM});
}

TEST_F(TraceeRunTest, AnExitOnTheWayIsReported) {
  calls_.stops = {WaitStatus::Signalled(SIGKILL)};
  StepResult result = Run(100);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.failure().reason, AttachReason::kTargetExited);
}

// Without the option, the service's end would cause a SIGTRAP in the thread.
TEST_F(TraceeRunTest, NothingRunsWithoutTheOption) {
  calls_.options_error = EIO;
  EXPECT_FALSE(Run(100).ok());
  EXPECT_TRUE(calls_.continued.empty());
}

TEST(WaitStatusTest, KindsAreToldApart) {
  using Kind = WaitStatus::Kind;
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_EXITED, 3), WaitStatus::Exited(3));
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_KILLED, SIGKILL),
            WaitStatus::Signalled(SIGKILL));
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_DUMPED, SIGSEGV),
            WaitStatus::Signalled(SIGSEGV));
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_TRAPPED, SIGUSR1),
            WaitStatus::SignalStop(SIGUSR1));
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_TRAPPED, SIGTRAP),
            WaitStatus::SignalStop(SIGTRAP));
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_TRAPPED, SIGTRAP | 0x80),
            WaitStatus::SystemCallStop());
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_TRAPPED, PTRACE_EVENT_STOP << 8 | SIGTRAP),
            WaitStatus::PtraceEvent(PTRACE_EVENT_STOP));
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_STOPPED, PTRACE_EVENT_STOP << 8 | SIGSTOP),
            WaitStatus::GroupStop(SIGSTOP));
  EXPECT_TRUE(WaitStatus::GroupStop(SIGSTOP).is_stop());
  EXPECT_FALSE(WaitStatus::Signalled(SIGKILL).is_stop());
  EXPECT_EQ(WaitStatus::FromWaitid(CLD_EXITED, 0).kind(), Kind::kExited);
}

TEST(WaitStatusTest, MessagesNameSignalsAndEvents) {
  EXPECT_EQ(WaitStatus::Exited(3).ToString(), "exited with 3");
  EXPECT_EQ(WaitStatus::Signalled(SIGKILL).ToString(), "killed by SIGKILL");
  EXPECT_EQ(WaitStatus::SignalStop(SIGUSR1).ToString(),
            "stopped before SIGUSR1 is delivered");
  EXPECT_EQ(WaitStatus::GroupStop(SIGTSTP).ToString(),
            "stopped with its process by SIGTSTP");
  EXPECT_EQ(WaitStatus::PtraceEvent(PTRACE_EVENT_STOP).ToString(),
            "stopped by PTRACE_EVENT_STOP");
  EXPECT_EQ(WaitStatus::Signalled(SIGRTMAX).ToString(), "killed by signal 64");
}

}  // namespace
}  // namespace rocattach
