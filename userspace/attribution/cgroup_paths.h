// Paths of control groups by their numbers.
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

// Of the unified hierarchy. An event has the number of its process's group; the path is
// asked of the kernel, and kept for groups that have been removed when they are asked
// for again. Not thread-safe.
class CgroupPaths {
 public:
  static constexpr size_t kMost = 1024;  // the least recently used is forgotten first

  // Where the hierarchy is mounted on this machine.
  CgroupPaths();
  // Where it is mounted.
  explicit CgroupPaths(std::string root);

  // "/kubepods/pod…/…", below the mount point. NOT_FOUND if the group is gone and was
  // not known before, or there is no unified hierarchy; PERMISSION_DENIED without
  // CAP_DAC_READ_SEARCH.
  absl::StatusOr<std::string> Find(uint64_t id);
  // A process of the group has this path in /proc/PID/cgroup. Kept if the path is that
  // of the group still: the process may have moved since its event.
  void Note(uint64_t id, absl::string_view path);
  size_t size() const { return paths_.size(); }

 private:
  struct Known {
    std::string path;
    std::list<uint64_t>::iterator place;  // in order_
  };
  absl::StatusOr<std::string> Ask(uint64_t id) const;
  void Keep(uint64_t id, std::string path);

  const std::string root_;
  UniqueFd fd_;  // of the root; none if it is no unified hierarchy
  std::map<uint64_t, Known> paths_;
  std::list<uint64_t> order_;  // last used first
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_ATTRIBUTION_CGROUP_PATHS_H_
