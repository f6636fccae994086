// The machine as files: /proc, /sys, /dev and the libraries, below a root directory
// that tests can replace.
#ifndef ROCATTACH_USERSPACE_DOCTOR_MACHINE_H_
#define ROCATTACH_USERSPACE_DOCTOR_MACHINE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

class Machine {
 public:
  // `root` is put before every path; empty for this machine.
  explicit Machine(std::string root = "") : root_(std::move(root)) {}

  // Reads a small file whole, at most 1 MiB of it, without the trailing newline.
  absl::StatusOr<std::string> Read(absl::string_view path) const;
  // The target of a symbolic link.
  absl::StatusOr<std::string> Link(absl::string_view path) const;
  bool Exists(absl::string_view path) const;
  // True if this process can open it for reading and, if requested, for writing.
  bool CanOpen(absl::string_view path, bool for_writing) const;
  // Paths (without the root) that match a pattern of glob(7), braces included.
  std::vector<std::string> Glob(absl::string_view pattern) const;
  // The path below the root, for calls that open files themselves.
  std::string Full(absl::string_view path) const;

 private:
  std::string root_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_DOCTOR_MACHINE_H_
