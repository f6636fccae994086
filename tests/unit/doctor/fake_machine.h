// A directory that stands in for the root of a machine.
#ifndef ROCATTACH_TESTS_UNIT_DOCTOR_FAKE_MACHINE_H_
#define ROCATTACH_TESTS_UNIT_DOCTOR_FAKE_MACHINE_H_

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/temporary_directory.h"
#include "userspace/doctor/machine.h"

namespace rocattach {

class FakeMachine {
 public:
  // Writes a file with this text, and makes the directories above it.
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void Link(const std::string& path, const std::string& target) {
    std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::create_symlink(target, full);
  }
  void Copy(const std::string& from, const std::string& path) {
    std::filesystem::path full = root() + path;
    std::filesystem::create_directories(full.parent_path());
    std::filesystem::copy_file(from, full);
  }
  const std::string& root() const { return root_.path(); }
  Machine machine() const { return Machine(root()); }

 private:
  const testing_support::TemporaryDirectory root_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_DOCTOR_FAKE_MACHINE_H_
