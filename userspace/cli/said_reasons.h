// Reasons that have been printed, so that a long one is printed only once.
#ifndef ROCATTACH_USERSPACE_CLI_SAID_REASONS_H_
#define ROCATTACH_USERSPACE_CLI_SAID_REASONS_H_

#include <sys/types.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace rocattach {

// Not thread-safe.
class SaidReasons {
 public:
  // The text to print for this process, which counts as printed then. Nothing if it was
  // printed for this process before; a reference to another process if that one had the
  // same long reason.
  std::optional<std::string> TextToSay(pid_t pid, const std::string& reason);

 private:
  std::map<std::string, pid_t> first_;
  std::set<std::pair<pid_t, std::string>> said_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_SAID_REASONS_H_
