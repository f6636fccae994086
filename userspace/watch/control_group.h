// A control group of the unified hierarchy (cgroup v2), and which processes are in it.
#ifndef ROCATTACH_USERSPACE_WATCH_CONTROL_GROUP_H_
#define ROCATTACH_USERSPACE_WATCH_CONTROL_GROUP_H_

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace rocattach {

// The directory of a control group of any hierarchy. `path` is that directory, or a
// path as in /proc/PID/cgroup ("/system.slice/…"). NOT_FOUND if there is no such
// group.
absl::StatusOr<std::string> FindControlGroup(const std::string& path);

class ControlGroup {
 public:
  // `path` as for FindControlGroup(). FAILED_PRECONDITION if it is in one of the older
  // hierarchies, which the kernel side cannot look up.
  static absl::StatusOr<ControlGroup> Open(const std::string& path);

  // The kernel's ID of the group. A later group of the same name, made after this one
  // was removed, has another ID.
  uint64_t id() const { return id_; }
  // Its path within the hierarchy as this process sees it; "/" is the root.
  const std::string& path() const { return path_; }
  // True if the process is in this group or in one below it; false if it has ended.
  bool Contains(pid_t pid) const;

 private:
  ControlGroup(uint64_t id, std::string path) : id_(id), path_(std::move(path)) {}

  uint64_t id_;
  std::string path_;
};

// True if `group`, a path as in /proc/PID/cgroup, is `ancestor` or below it.
bool IsWithinControlGroup(const std::string& group, const std::string& ancestor);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_WATCH_CONTROL_GROUP_H_
