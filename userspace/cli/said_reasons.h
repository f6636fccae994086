// Reasons that have been said, so that long ones are read once.
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
  // What is to be said of this process. Nothing if that was said of it before; where
  // the same long reason was given for another one, a reference to that.
  std::optional<std::string> Take(pid_t pid, const std::string& reason);

 private:
  std::map<std::string, pid_t> first_;
  std::set<std::pair<pid_t, std::string>> said_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_CLI_SAID_REASONS_H_
