// A descriptor in a process whose other code may close it.
#ifndef ROCATTACH_USERSPACE_LIBRARY_GUARDED_FD_H_
#define ROCATTACH_USERSPACE_LIBRARY_GUARDED_FD_H_

#include <sys/stat.h>
#include <sys/types.h>

#include <utility>

#include "userspace/base/unique_fd.h"

namespace rocattach {

// Owns a descriptor of a library. The host program may have closed it, as daemons close
// everything above 2, and its number may belong to a file of the host by now. So each
// use checks first that it still is the same file; a foreign one is left alone.
class GuardedFd {
 public:
  GuardedFd() = default;
  explicit GuardedFd(UniqueFd fd) : fd_(std::move(fd)) {
    if (!Identify(fd_.get(), &device_, &inode_)) (void)fd_.release();
  }
  GuardedFd(GuardedFd&& other) noexcept = default;
  GuardedFd& operator=(GuardedFd&& other) noexcept {
    reset();
    fd_ = std::move(other.fd_);
    device_ = other.device_;
    inode_ = other.inode_;
    return *this;
  }
  ~GuardedFd() { reset(); }

  // The descriptor, or -1 if it is no longer ours.
  int get() {
    dev_t device = 0;
    ino_t inode = 0;
    if (!fd_.valid()) return -1;
    if (!Identify(fd_.get(), &device, &inode) || device != device_ || inode != inode_) {
      (void)fd_.release();
    }
    return fd_.get();
  }
  // Gives up a descriptor that is known to be the host's, without closing it.
  void forget() { (void)fd_.release(); }
  void reset() {
    (void)get();
    fd_.reset();
  }

 private:
  static bool Identify(int fd, dev_t* device, ino_t* inode) {
    struct stat info;
    if (fstat(fd, &info) != 0) return false;
    *device = info.st_dev;
    *inode = info.st_ino;
    return true;
  }

  UniqueFd fd_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_GUARDED_FD_H_
