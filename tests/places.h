// Places for the tests' files, and ways to reach files of the build, wherever the clone
// is: in a directory that is closed to other users, in a path with blanks, next to file
// systems that are mounted noexec.
#ifndef ROCATTACH_TESTS_PLACES_H_
#define ROCATTACH_TESTS_PLACES_H_

#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

#include "tests/temporary_directory.h"

namespace rocattach::testing_support {

// True if every user can go through all directories of `path`, itself included.
inline bool EverybodyReaches(const std::filesystem::path& path) {
  std::filesystem::path part;
  for (const auto& name : path) {
    part /= name;
    struct stat info;
    if (stat(part.c_str(), &info) != 0) return false;
    if (S_ISDIR(info.st_mode) && (info.st_mode & S_IXOTH) == 0) return false;
  }
  return true;
}

// Returns a directory for temporary files in which every user can execute files and map
// them as code.
inline std::string ExecutablePlace() {
  for (const char* place : {"/tmp", "/var/tmp", "/run", "/dev/shm"}) {
    struct statvfs info;
    if (statvfs(place, &info) == 0 && (info.f_flag & ST_NOEXEC) == 0 &&
        access(place, W_OK | X_OK) == 0 && EverybodyReaches(place)) {
      return place;
    }
  }
  return "/tmp";
}

// A new directory below ExecutablePlace(), removed with the object; all can read it.
class ExecutableDirectory : public TemporaryDirectory {
 public:
  ExecutableDirectory() : TemporaryDirectory(ExecutablePlace()) {
    chmod(path().c_str(), 0755);
  }
};

// Returns `path` or a link without blanks: LD_PRELOAD is split at them, even if quoted.
inline std::string WithoutBlanks(const std::string& path) {
  if (path.find(' ') == std::string::npos) return path;
  static const ExecutableDirectory links;
  const std::filesystem::path target(path);
  const std::string link = links / std::to_string(std::hash<std::string>()(path)) +
                           "-" + target.filename().string();
  std::error_code there_already;
  std::filesystem::create_symlink(target, link, there_already);
  return link;
}

// For a shell's command line.
inline std::string Quoted(const std::string& word) {
  std::string quoted = "'";
  for (char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

inline std::string Quoted(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) {
    line += (line.empty() ? "" : " ") + Quoted(word);
  }
  return line;
}

// Returns the words with paths below `build` replaced by copies that every user can
// reach, unless every user can reach the build itself. `parts` are directories of the
// build that such a command needs in addition to the files that it names.
inline std::vector<std::string> ReachableByEverybody(std::vector<std::string> words,
                                                     const std::string& build,
                                                     std::vector<std::string> parts) {
  if (EverybodyReaches(build)) return words;
  for (const std::string& word : words) {
    if (word.rfind(build + "/", 0) == 0) parts.push_back(word.substr(build.size() + 1));
  }
  namespace fs = std::filesystem;
  static const ExecutableDirectory copies;
  for (const std::string& part : parts) {
    const fs::path from = fs::path(build) / part, to = fs::path(copies.path()) / part;
    std::error_code error;
    if (fs::exists(to, error) || !fs::exists(from, error)) continue;
    fs::create_directories(to.parent_path(), error);
    fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks,
             error);
  }
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(copies.path(), error)) {
    if (entry.is_symlink(error)) continue;
    const bool run =
        entry.is_directory(error) || access(entry.path().c_str(), X_OK) == 0;
    chmod(entry.path().c_str(), run ? 0755 : 0644);
  }
  for (std::string& word : words) {
    if (word.rfind(build + "/", 0) == 0) word.replace(0, build.size(), copies.path());
  }
  return words;
}

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_PLACES_H_
