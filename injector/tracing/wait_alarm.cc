#include "injector/tracing/wait_alarm.h"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

namespace rocattach {
namespace {

constexpr uint64_t kAgainNs = 20'000'000;

int AlarmSignal() {
  return SIGRTMAX - 4;
}

void DoNothing(int) {}

// Called once per process. False if the signal is used for something else.
bool InstallHandler() {
  struct sigaction action = {}, old = {};
  if (sigaction(AlarmSignal(), nullptr, &old) != 0) return false;
  if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) return false;
  action.sa_handler = DoNothing;
  sigemptyset(&action.sa_mask);
  return sigaction(AlarmSignal(), &action, nullptr) == 0;
}

itimerspec Every(uint64_t first_ns, uint64_t again_ns) {
  itimerspec time = {};
  time.it_value.tv_sec = static_cast<time_t>(first_ns / 1'000'000'000);
  time.it_value.tv_nsec = static_cast<long>(first_ns % 1'000'000'000);
  time.it_interval.tv_nsec = static_cast<long>(again_ns);
  return time;
}

}  // namespace

WaitAlarm& WaitAlarm::OfThisThread() {
  thread_local WaitAlarm alarm;
  return alarm;
}

WaitAlarm::WaitAlarm() {
  static const bool installed = InstallHandler();
  if (!installed) return;
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, AlarmSignal());
  if (pthread_sigmask(SIG_UNBLOCK, &set, nullptr) != 0) return;
  sigevent event = {};
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = AlarmSignal();
  event._sigev_un._tid = gettid();
  usable_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
}

WaitAlarm::~WaitAlarm() {
  if (usable_) timer_delete(timer_);
}

bool WaitAlarm::Arm(uint64_t after_ns) {
  if (!usable_) return false;
  const itimerspec time = Every(after_ns == 0 ? 1 : after_ns, kAgainNs);
  return timer_settime(timer_, 0, &time, nullptr) == 0;
}

void WaitAlarm::Disarm() {
  const itimerspec never = {};
  if (usable_) timer_settime(timer_, 0, &never, nullptr);
}

}  // namespace rocattach
