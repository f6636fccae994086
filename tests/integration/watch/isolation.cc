#include "tests/integration/watch/isolation.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace rocattach::testing_support {
namespace {

// The group of this process in the unified hierarchy; empty if there is none.
std::string OwnGroup() {
  std::string path;
  std::ifstream groups("/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    if (line.rfind("0::", 0) == 0) path = line.substr(3);
  }
  for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
    // The groups of older hierarchies have no such file.
    if (path.empty() ||
        access((std::string(root) + "/cgroup.controllers").c_str(), F_OK) != 0) {
      continue;
    }
    return root + (path == "/" ? "" : path);
  }
  return "";
}

bool MoveInto(const std::string& group) {
  std::ofstream members(group + "/cgroup.procs");
  members << "0" << std::flush;
  return members.good();
}

}  // namespace

void Isolation::Enter() {
  static const Isolation isolation;
}

Isolation::Isolation() : owner_(getpid()) {
  const bool isolated = EnterGroup();
  const auto path = std::filesystem::temp_directory_path() / "rocattach-tests.lock";
  lock_ = UniqueFd(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (lock_.valid()) flock(lock_.get(), isolated ? LOCK_SH : LOCK_EX);
}

bool Isolation::EnterGroup() {
  parent_ = OwnGroup();
  if (parent_.empty()) return false;
  const std::string group = parent_ + "/rocattach-test-" + std::to_string(owner_);
  if (mkdir(group.c_str(), 0755) != 0) return false;
  if (!MoveInto(group)) {
    rmdir(group.c_str());
    return false;
  }
  group_ = group;
  setenv("ROCATTACH_CGROUP", group_.c_str(), 1);
  return true;
}

Isolation::~Isolation() {
  if (group_.empty() || getpid() != owner_) return;
  MoveInto(parent_);
  // Fails while a leftover process is still ending; an empty group does no harm.
  rmdir(group_.c_str());
}

}  // namespace rocattach::testing_support
