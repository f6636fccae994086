// Paths of control groups by their IDs.
#ifndef ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_PATHS_H_
#define ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_PATHS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Finds paths of groups of the unified hierarchy. An event has the ID of its process's
// group; the kernel is asked for the path, which is kept because the group may have
// been removed when it is requested again. Not thread-safe.
class CgroupPaths {
 public:
  static constexpr size_t kMost = 1024;  // the least recently used is forgotten first

  // Uses the mount point of the hierarchy on this machine.
  CgroupPaths();
  // Uses this mount point.
  explicit CgroupPaths(std::string root);

  // "/kubepods/pod…/…", below the mount point. NOT_FOUND if the group is gone and was
  // not known before, or there is no unified hierarchy; PERMISSION_DENIED without
  // CAP_DAC_READ_SEARCH.
  absl::StatusOr<std::string> Find(uint64_t id);
  // Adds the path that a process of the group has in /proc/PID/cgroup, if it still is
  // the group's: the process may have moved since its event.
  void AddIfCurrent(uint64_t id, absl::string_view path);
  size_t size() const { return paths_.size(); }

 private:
  struct Known {
    std::string path;
    std::list<uint64_t>::iterator place;  // in order_
  };
  absl::StatusOr<std::string> Ask(uint64_t id) const;
  void Keep(uint64_t id, std::string path);

  const std::string root_;
  UniqueFd fd_;  // the root's; invalid if it is no unified hierarchy
  std::map<uint64_t, Known> paths_;
  std::list<uint64_t> order_;  // last used first
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_PATHS_H_
