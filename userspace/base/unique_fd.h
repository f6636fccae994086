// Owner of one file descriptor.
#ifndef ROCATTACH_USERSPACE_BASE_UNIQUE_FD_H_
#define ROCATTACH_USERSPACE_BASE_UNIQUE_FD_H_

#include <unistd.h>

#include <utility>

namespace rocattach {

// Closes the descriptor that it holds when it goes out of scope. Move-only.
class UniqueFd {
 public:
  UniqueFd() = default;
  // Takes ownership of `fd`; -1 means "none".
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  UniqueFd(const UniqueFd&) = delete;
  UniqueFd& operator=(const UniqueFd&) = delete;
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  // Releases the descriptor without closing it.
  int release() { return std::exchange(fd_, -1); }
  // Closes the descriptor and holds `fd` instead.
  void reset(int fd = -1) {
    if (fd_ >= 0) close(fd_);
    fd_ = fd;
  }

 private:
  int fd_ = -1;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_UNIQUE_FD_H_
