// Reports the state of the program to the service manager that started it, by systemd's
// notification protocol (sd_notify(3)): one datagram of text for each change.
#ifndef ROCATTACH_USERSPACE_CLI_WATCH_SERVICE_NOTIFIER_H_
#define ROCATTACH_USERSPACE_CLI_WATCH_SERVICE_NOTIFIER_H_

#include <stddef.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Without a service manager nothing is sent. No call blocks: if the manager does not
// read, a message is lost. Not thread-safe.
class ServiceNotifier {
 public:
  // From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are removed from the
  // environment: they are meant for this process, not for the ones that it starts. Call
  // it before other threads are started.
  static ServiceNotifier FromEnvironment();

  // Reports that the service is running. Sent once; later calls do nothing.
  void Ready();
  // Reports that the service's loop is alive, with one line of text for people. Sent
  // twice within the interval that the manager asks for; calls in between do nothing.
  // With no interval it is sent every ten seconds.
  void Alive(absl::string_view status);
  // True if Alive would send something now.
  bool IsDue() const;
  // Reports that the service does not start and ends now. The manager keeps this text.
  void Refused(absl::string_view why);
  // Reports that the service completes its output now, and then ends.
  void Stopping();

 private:
  void Send(const std::string& message) const;

  UniqueFd socket_;
  sockaddr_un address_ = {};
  socklen_t address_size_ = 0;
  bool watchdog_ = false;
  absl::Duration interval_ = absl::InfiniteDuration();
  absl::Time last_ = absl::InfinitePast();
  bool ready_ = false;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_WATCH_SERVICE_NOTIFIER_H_
