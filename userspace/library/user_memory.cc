#include "userspace/library/user_memory.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

namespace rocattach {

bool ReadUserMemory(const void* from, void* to, size_t bytes) {
  if (from == nullptr) return false;
  if (bytes == 0) return true;
  const iovec local = {to, bytes};
  const iovec remote = {const_cast<void*>(from), bytes};
  const ssize_t got = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (got == static_cast<ssize_t>(bytes)) return true;
  if (got >= 0 || errno == EFAULT) return false;
  std::memcpy(to, from, bytes);
  return true;
}

std::optional<std::string> ReadUserString(const char* from, size_t limit) {
  std::string text;
  char chunk[256];
  while (text.size() < limit) {
    // Never across the end of a page: the next one may be unmapped.
    const uintptr_t at = reinterpret_cast<uintptr_t>(from) + text.size();
    const size_t want = std::min(sizeof(chunk), size_t{4096} - at % 4096);
    if (from == nullptr || !ReadUserMemory(from + text.size(), chunk, want)) {
      return std::nullopt;
    }
    const void* end = std::memchr(chunk, 0, want);
    if (end != nullptr) {
      text.append(chunk, static_cast<size_t>(static_cast<const char*>(end) - chunk));
      return text.size() <= limit ? std::optional<std::string>(text) : std::nullopt;
    }
    text.append(chunk, want);
  }
  return std::nullopt;
}

}  // namespace rocattach
