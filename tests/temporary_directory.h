// A directory for the files of one test.
#ifndef ROCATTACH_TESTS_TEMPORARY_DIRECTORY_H_
#define ROCATTACH_TESTS_TEMPORARY_DIRECTORY_H_

#include <stdio.h>
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace rocattach::testing_support {

// A new directory, removed with its contents when the object is destroyed. Only its
// user can read it. A fixture declares it before any member that writes to it.
class TemporaryDirectory {
 public:
  TemporaryDirectory() : TemporaryDirectory("/tmp") {}
  // Creates it below `parent`. If that fails, the test can do nothing and aborts.
  explicit TemporaryDirectory(const std::string& parent)
      : path_(parent + "/rocattach-test.XXXXXX") {
    if (mkdtemp(path_.data()) != nullptr) return;
    perror(path_.c_str());
    abort();
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::string& path() const { return path_; }
  // The path of a file in it, which need not exist.
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_TEMPORARY_DIRECTORY_H_
