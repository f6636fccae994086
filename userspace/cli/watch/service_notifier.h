// Tells the service manager that started the program how it is: systemd's notification
// protocol (sd_notify(3)), which is one datagram of text for each change.
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

// Without a service manager nothing is sent. No call waits: a manager that does not
// read misses the message. Not thread-safe.
class ServiceNotifier {
 public:
  // From NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID, which are removed from the
  // environment: they are meant for this process, not for the ones that it starts. Call
  // it before there are threads.
  static ServiceNotifier FromEnvironment();

  // The service does its work now. Sent once; later calls do nothing.
  void Ready();
  // The service's loop is alive. Sent twice within the interval that the manager asks
  // for, together with `status`, one line of text for people; otherwise this does
  // nothing. With no interval it is sent every ten seconds.
  void Alive(absl::string_view status);
  // True if Alive would send something now.
  bool IsDue() const;
  // The service does not start, and ends now. The manager keeps this line of text.
  void Refused(absl::string_view why);
  // The service completes its output now, and then ends.
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
