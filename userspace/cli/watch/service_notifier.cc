#include "userspace/cli/watch/service_notifier.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "userspace/base/clock.h"
#include "userspace/base/control_message.h"
#include "userspace/cli/common/parent_process.h"

namespace rocattach {
namespace {

constexpr absl::Duration kStatusInterval = absl::Seconds(10);

// Returns the variable's value, and removes it from the environment.
std::string TakeVariable(const char* name) {
  const char* value = getenv(name);
  std::string taken = value == nullptr ? "" : value;
  unsetenv(name);
  return taken;
}

// The steady clock, by which a manager counts the watchdog's interval, too.
absl::Time Now() {
  return absl::FromUnixNanos(static_cast<int64_t>(ClockNs(CLOCK_MONOTONIC)));
}

// Half of the interval in which the manager expects a message; zero: none is expected.
absl::Duration WatchdogInterval(const std::string& usec, const std::string& pid) {
  uint64_t interval_usec = 0;
  pid_t meant = 0;
  if (!absl::SimpleAtoi(usec, &interval_usec) || interval_usec == 0) {
    return absl::ZeroDuration();
  }
  if (!pid.empty() && (!absl::SimpleAtoi(pid, &meant) || meant != MainProcess())) {
    return absl::ZeroDuration();
  }
  return absl::Microseconds(interval_usec) / 2;
}

}  // namespace

ServiceNotifier ServiceNotifier::FromEnvironment() {
  ServiceNotifier notifier;
  const std::string path = TakeVariable("NOTIFY_SOCKET");
  const std::string watchdog_usec = TakeVariable("WATCHDOG_USEC");
  const std::string watchdog_pid = TakeVariable("WATCHDOG_PID");
  sockaddr_un& address = notifier.address_;
  // A path, or "@" and the name of an abstract socket.
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) return notifier;
  if (path[0] != '/' && path[0] != '@') return notifier;
  address.sun_family = AF_UNIX;
  memcpy(address.sun_path, path.data(), path.size());
  if (path[0] == '@') address.sun_path[0] = '\0';
  notifier.address_size_ =
      static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  notifier.socket_.reset(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const absl::Duration half = WatchdogInterval(watchdog_usec, watchdog_pid);
  notifier.watchdog_ = half > absl::ZeroDuration();
  notifier.interval_ = notifier.watchdog_ ? half : kStatusInterval;
  return notifier;
}

void ServiceNotifier::Send(const std::string& message) const {
  if (!socket_.valid()) return;
  // Sent as the main process, the only one that a manager accepts (NotifyAccess=main).
  // Root may name a process other than its own.
  const ucred sender = {MainProcess(), getuid(), getgid()};
  (void)SendWithControl(socket_.get(), address_, address_size_, message,
                        SCM_CREDENTIALS, BytesOf(sender));
}

void ServiceNotifier::Ready() {
  if (ready_) return;
  ready_ = true;
  Send("READY=1");
}

bool ServiceNotifier::IsDue() const {
  return socket_.valid() && Now() - last_ >= interval_;
}

void ServiceNotifier::Alive(absl::string_view status) {
  if (!IsDue()) return;
  last_ = Now();
  Send(absl::StrCat(watchdog_ ? "WATCHDOG=1\n" : "", "STATUS=", status));
}

void ServiceNotifier::Refused(absl::string_view why) {
  Send(absl::StrCat("STATUS=", why));
}

void ServiceNotifier::Stopping() {
  Send("STOPPING=1\nSTATUS=Completing the output");
}

}  // namespace rocattach
