// Control groups made by a test in the unified hierarchy, if permitted.
#ifndef ROCATTACH_TESTS_UNIT_ATTRIBUTION_TEST_GROUPS_H_
#define ROCATTACH_TESTS_UNIT_ATTRIBUTION_TEST_GROUPS_H_

#include <sys/stat.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace rocattach::testing_support {

// Removes its groups when it is destroyed.
class TestGroups {
 public:
  TestGroups() {
    for (const char* root : {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}) {
      if (!std::filesystem::exists(absl::StrCat(root, "/cgroup.procs"))) continue;
      root_ = root;
      if (Make(name())) return;
    }
    root_.clear();
  }
  ~TestGroups() {
    while (!made_.empty()) RemoveLast();
  }

  bool possible() const { return !root_.empty(); }
  const std::string& root() const { return root_; }
  // Path of the group that contains all others.
  static std::string name() { return absl::StrCat("rocattach-test-", getpid()); }

  // Makes a group below name(), with its parents, and returns its number (inode).
  uint64_t Add(const std::string& path) {
    std::string whole = name();
    for (const auto part : absl::StrSplit(path, '/')) {
      absl::StrAppend(&whole, "/", part);
      (void)Make(whole);
    }
    struct stat group = {};
    return stat(absl::StrCat(root_, "/", whole).c_str(), &group) == 0 ? group.st_ino
                                                                      : 0;
  }
  void RemoveLast() {
    rmdir(made_.back().c_str());
    made_.pop_back();
  }

 private:
  bool Make(const std::string& path) {
    const std::string whole = absl::StrCat(root_, "/", path);
    if (mkdir(whole.c_str(), 0755) != 0) return false;
    made_.push_back(whole);
    return true;
  }

  std::string root_;
  std::vector<std::string> made_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_UNIT_ATTRIBUTION_TEST_GROUPS_H_
