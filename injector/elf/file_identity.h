// Identifies a file, and shows whether its contents may have been replaced.
#ifndef ROCATTACH_INJECTOR_ELF_FILE_IDENTITY_H_
#define ROCATTACH_INJECTOR_ELF_FILE_IDENTITY_H_

#include <sys/stat.h>

#include <cstdint>

namespace rocattach {

struct FileIdentity {
  uint64_t device = 0;
  uint64_t inode = 0;  // 0: any file
  uint64_t bytes = 0;
  // Time of the last change of the contents, nanoseconds. Mode and links may change.
  uint64_t modified_ns = 0;

  static FileIdentity Of(const struct stat& info) {
    return {info.st_dev, info.st_ino, static_cast<uint64_t>(info.st_size),
            static_cast<uint64_t>(info.st_mtim.tv_sec) * 1'000'000'000 +
                static_cast<uint64_t>(info.st_mtim.tv_nsec)};
  }
  bool IsSameFile(const FileIdentity& other) const {
    return device == other.device && inode == other.inode;
  }
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_FILE_IDENTITY_H_
