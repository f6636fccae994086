// A directory that stands for a machine.
#ifndef ROCATTACH_TESTS_UNIT_DOCTOR_FAKE_MACHINE_H_
#define ROCATTACH_TESTS_UNIT_DOCTOR_FAKE_MACHINE_H_

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

#include "userspace/doctor/machine.h"

namespace rocattach {

class FakeMachine {
 public:
  FakeMachine() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "rocattach-doctor.XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    root_ = pattern;
  }
  ~FakeMachine() { std::filesystem::remove_all(root_); }
  FakeMachine(const FakeMachine&) = delete;
  FakeMachine& operator=(const FakeMachine&) = delete;

  // A file with that text, and the directories above it.
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::create_symlink(target, full);
  }
  void Copy(const std::string& from, const std::string& path) {
    std::filesystem::path full = root_ + path;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::copy_file(from, full);
  }
  const std::string& root() const { return root_; }
  Machine machine() const { return Machine(root_); }

 private:
  std::string root_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_DOCTOR_FAKE_MACHINE_H_
