// The names that an HTTP server answers to.
#ifndef ROCATTACH_USERSPACE_TELEMETRY_HTTP_HOST_H_
#define ROCATTACH_USERSPACE_TELEMETRY_HTTP_HOST_H_

#include <set>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rocattach {

// DNS rebinding: a page of a foreign site lets its own name resolve to this machine, so
// that a browser here reads from this server what it believes to be that site's. The
// browser sends the site's name as the host, so only known names are answered to: those
// of the machine, `localhost` and configured ones. Numeric addresses are always known:
// they are not resolved, so nobody can let one mean another machine.
class HttpHosts {
 public:
  // `machine` is the machine's name, and the first label of it is one too; `hosts` is
  // the text of /etc/hosts, of which each line with the machine's name has more.
  HttpHosts(absl::string_view machine, absl::string_view hosts,
            const std::vector<std::string>& configured);
  // Those of this machine.
  static HttpHosts OfThisMachine(const std::vector<std::string>& configured);

  // `host` as a request has it: a name or an address, with or without a port.
  bool Allows(absl::string_view host) const;

 private:
  void Add(absl::string_view name);

  std::set<std::string> names_;  // in lower case, without the last dot
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_TELEMETRY_HTTP_HOST_H_
