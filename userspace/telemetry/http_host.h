// The host names that an HTTP server accepts.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_HTTP_HOST_H_
#define ROCATTACH_USERSPACE_TELEMETRY_HTTP_HOST_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// Protects against DNS rebinding: a foreign site lets its own name resolve to this
// machine, so that a browser here takes pages of this server for that site's. The
// browser sends the site's name as the host, so only known names are accepted: those
// of the machine, `localhost` and configured ones. Numeric addresses are always
// accepted: they are not resolved, so they cannot be redirected to another machine.
class HttpHosts {
 public:
  // `machine` is the machine's name, whose first label is accepted too; `hosts` is the
  // text of /etc/hosts: the names on its lines with the machine's name are accepted.
  HttpHosts(absl::string_view machine, absl::string_view hosts,
            const std::vector<std::string>& configured);
  // The names of this machine.
  static HttpHosts OfThisMachine(const std::vector<std::string>& configured);

  // `host` is the value in a request: a name or an address, with or without a port.
  bool Allows(absl::string_view host) const;

 private:
  void Add(absl::string_view name);

  std::set<std::string> names_;  // in lower case, without the last dot
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_HTTP_HOST_H_
