#include "userspace/telemetry/http_host.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/utsname.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"

namespace rocattach {
namespace {

std::string Plain(absl::string_view name) {
  if (!name.empty() && name.back() == '.') name.remove_suffix(1);
  return absl::AsciiStrToLower(name);
}

// Removes a port; false if the text after the colon is not one.
bool RemovePort(absl::string_view* host) {
  const bool bracketed = !host->empty() && host->front() == '[';
  const size_t from = bracketed ? host->find(']') : 0;
  if (from == absl::string_view::npos) return false;
  const size_t colon = host->find(':', from);
  if (colon == absl::string_view::npos) return true;
  const absl::string_view port = host->substr(colon + 1);
  if (!std::all_of(port.begin(), port.end(), absl::ascii_isdigit)) return false;
  *host = host->substr(0, colon);
  return true;
}

bool IsAddress(absl::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    // Without the zone: "fe80::1%eth0".
    const std::string v6(host.substr(1, std::min(host.find('%'), host.size() - 1) - 1));
    in6_addr address;
    return inet_pton(AF_INET6, v6.c_str(), &address) == 1;
  }
  in_addr address;
  return inet_pton(AF_INET, std::string(host).c_str(), &address) == 1;
}

}  // namespace

HttpHosts::HttpHosts(absl::string_view machine, absl::string_view hosts,
                     const std::vector<std::string>& configured) {
  Add("localhost");
  for (const std::string& name : configured) Add(name);
  if (machine.empty()) return;
  Add(machine);
  Add(machine.substr(0, machine.find('.')));
  for (absl::string_view line : absl::StrSplit(hosts, '\n')) {
    line = line.substr(0, line.find('#'));
    const std::vector<absl::string_view> words =
        absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
    const auto is_machine = [machine](absl::string_view word) {
      return Plain(word) == Plain(machine);
    };
    if (std::none_of(words.begin(), words.end(), is_machine)) continue;
    for (size_t i = 1; i < words.size(); ++i) Add(words[i]);
  }
}

HttpHosts HttpHosts::OfThisMachine(const std::vector<std::string>& configured) {
  utsname name = {};
  (void)uname(&name);
  std::ifstream file("/etc/hosts");
  const std::string hosts((std::istreambuf_iterator<char>(file)), {});
  return HttpHosts(name.nodename, hosts, configured);
}

void HttpHosts::Add(absl::string_view name) {
  if (std::string plain = Plain(name); !plain.empty()) names_.insert(std::move(plain));
}

bool HttpHosts::Allows(absl::string_view host) const {
  if (!RemovePort(&host)) return false;
  return IsAddress(host) || names_.count(Plain(host)) != 0;
}

}  // namespace rocattach
