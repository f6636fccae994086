// The command that a run profiles, as a child process.
#ifndef ROCATTACH_USERSPACE_SERVICE_CHILD_COMMAND_H_
#define ROCATTACH_USERSPACE_SERVICE_CHILD_COMMAND_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/base/unique_fd.h"
#include "userspace/watch/budget.h"

namespace rocattach {

// The child outlives this object.
class ChildCommand {
 public:
  // Destination of its standard output.
  enum class Output {
    kInherited,
    kStandardError,  // the recording uses standard output
  };

  // Forks and execs; an error has exec's errno as its code. The original limit of
  // descriptors is restored in the child.
  static absl::StatusOr<std::unique_ptr<ChildCommand>> Start(
      const std::vector<std::string>& command, const DescriptorLimit& descriptors,
      Output output = Output::kInherited);

  pid_t pid() const { return pid_; }
  // Readable when the child has ended; -1 if there is no pidfd.
  int pidfd() const { return pidfd_.get(); }
  // The child's status as wait(2) returns it, once it has ended.
  std::optional<int> TryWait() const;

 private:
  explicit ChildCommand(pid_t pid) : pid_(pid) {}

  const pid_t pid_;
  UniqueFd pidfd_;
};

// Reaps processes that the command left behind. They become our children
// (PR_SET_CHILD_SUBREAPER), so that they still count as its descendants. `command` may
// be null, and is not reaped.
void ReapOrphans(const ChildCommand* command);

// The program that execvp(3) would run as `name`; the error explains why there is none,
// with exec's errno as its code.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_CHILD_COMMAND_H_
