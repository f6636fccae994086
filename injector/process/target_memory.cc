#include "injector/process/target_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "injector/fault.h"
#include "userspace/base/errno_status.h"
#include "userspace/base/file.h"
#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

// User addresses end below this on every x86-64 (57-bit paging); above it pread's
// signed offset would change its meaning.
constexpr uint64_t kAddressLimit = 1ull << 57;

absl::Status CheckRange(RemoteAddress address, size_t bytes) {
  if (bytes > TargetMemory::kMaxTransfer || address.value() >= kAddressLimit) {
    return ErrnoStatus(EINVAL, absl::StrFormat("%d bytes at %#x are out of range",
                                               bytes, address.value()));
  }
  return absl::OkStatus();
}

absl::Status TransferError(const char* call, int fd, RemoteAddress address,
                           size_t bytes) {
  return ErrnoStatus(errno, absl::StrFormat("%s(mem=%d, %d bytes at %#x) failed", call,
                                            fd, bytes, address.value()));
}

}  // namespace

absl::StatusOr<TargetMemory> TargetMemory::Open(pid_t pid, pid_t tid) {
  // For the first thread the shorter path is faster: the kernel has to create three
  // names fewer. Another thread may have outlived the first one.
  const std::string path = pid == tid
                               ? absl::StrCat("/proc/", pid, "/mem")
                               : absl::StrCat("/proc/", pid, "/task/", tid, "/mem");
  ASSIGN_OR_RETURN(UniqueFd fd, OpenFile(path, O_RDWR | O_NOFOLLOW));
  return TargetMemory(std::move(fd), tid);
}

absl::Status TargetMemory::Read(RemoteAddress address, void* buffer,
                                size_t bytes) const {
  ASSIGN_OR_RETURN(const size_t done, ReadFront(address, buffer, bytes));
  if (done == bytes) return absl::OkStatus();
  errno = EIO;
  return TransferError("pread", fd_.get(), address + done, bytes - done);
}

absl::StatusOr<size_t> TargetMemory::ReadFront(RemoteAddress address, void* buffer,
                                               size_t bytes) const {
  RETURN_IF_ERROR(CheckRange(address, bytes));
  char* out = static_cast<char*>(buffer);
  size_t done = 0;
  while (done < bytes) {
    ssize_t n = pread(fd_.get(), out + done, bytes - done,
                      static_cast<off_t>(address.value() + done));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EIO && done != 0) break;
    if (n == 0) errno = ESRCH;  // the address space has been torn down
    if (n <= 0) return TransferError("pread", fd_.get(), address + done, bytes - done);
    done += static_cast<size_t>(n);
  }
  return done;
}

// Finding the thread and locking its mappings costs more than copying a few pages.
absl::Status TargetMemory::ReadParts(absl::Span<const Part> parts) const {
  iovec theirs[kMaxParts] = {}, ours[kMaxParts] = {};
  size_t bytes = 0;
  for (size_t i = 0; i < parts.size() && i < kMaxParts; ++i) {
    theirs[i] = {reinterpret_cast<void*>(parts[i].address.value()), parts[i].bytes};
    ours[i] = {parts[i].buffer, parts[i].bytes};
    bytes += parts[i].bytes;
  }
  if (parts.size() <= kMaxParts &&
      process_vm_readv(tid_, ours, parts.size(), theirs, parts.size(), 0) ==
          static_cast<ssize_t>(bytes)) {
    return absl::OkStatus();
  }
  for (const Part& part : parts) {
    RETURN_IF_ERROR(Read(part.address, part.buffer, part.bytes));
  }
  return absl::OkStatus();
}

absl::Status TargetMemory::Write(RemoteAddress address, const void* buffer,
                                 size_t bytes) const {
  RETURN_IF_ERROR(CheckRange(address, bytes));
  const char* in = static_cast<const char*>(buffer);
  for (size_t done = 0; done < bytes;) {
    ssize_t n = -1;
    if (FaultAt("mem-write")) {
      errno = EIO;  // as with proc_mem.force_override=never
    } else {
      n = pwrite(fd_.get(), in + done, bytes - done,
                 static_cast<off_t>(address.value() + done));
    }
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = ESRCH;
    if (n <= 0) return TransferError("pwrite", fd_.get(), address + done, bytes - done);
    done += static_cast<size_t>(n);
  }
  return absl::OkStatus();
}

}  // namespace rocattach
