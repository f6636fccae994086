// Control groups with the names that container runtimes and batch systems give theirs.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_MADE_GROUP_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_MADE_GROUP_H_

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace rocattach::testing_support {

// Nested groups with these names, below this test's own; removed with the object.
class MadeGroup {
 public:
  explicit MadeGroup(const std::vector<std::string>& names) {
    const char* own = getenv("ROCATTACH_CGROUP");
    if (own == nullptr) return;
    group_ = own;
    valid_ = true;
    for (const std::string& name : names) {
      group_ += "/" + name;
      if (mkdir(group_.c_str(), 0755) == 0) {
        made_.push_back(group_);
      } else if (errno != EEXIST) {
        valid_ = false;
      }
    }
  }
  ~MadeGroup() {
    for (auto path = made_.rbegin(); path != made_.rend(); ++path) rmdir(path->c_str());
  }
  MadeGroup(const MadeGroup&) = delete;
  MadeGroup& operator=(const MadeGroup&) = delete;

  // False without the unified hierarchy.
  bool valid() const { return valid_; }
  // Runs a command in the group.
  std::vector<std::string> Within(const std::vector<std::string>& command) const {
    std::vector<std::string> words = {
        "sh", "-c", "echo 0 >\"$0\"/cgroup.procs && exec \"$@\"", group_};
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

 private:
  bool valid_ = false;
  std::string group_;
  std::vector<std::string> made_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_MADE_GROUP_H_
