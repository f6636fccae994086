// Reads memory that a caller of the C API points to, without trusting the pointer.
#ifndef ROCATTACH_USERSPACE_LIBRARY_USER_MEMORY_H_
#define ROCATTACH_USERSPACE_LIBRARY_USER_MEMORY_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace rocattach {

// Copies `bytes` from `from`; false if they cannot be read. If the kernel does not let
// a process read itself this way (process_vm_readv is filtered), any pointer but NULL
// is trusted.
bool ReadUserMemory(const void* from, void* to, size_t bytes);

// A NUL-terminated string of at most `limit` bytes; nullopt if it cannot be read or
// does not end.
std::optional<std::string> ReadUserString(const char* from, size_t limit);

// An array; nullopt if it cannot be read or has more than kMaxCount elements.
template <typename T>
std::optional<std::vector<T>> ReadUserArray(const T* from, uint64_t count) {
  constexpr uint64_t kMaxCount = 4096;
  if (count > kMaxCount) return std::nullopt;
  std::vector<T> values(count);
  if (count > 0 && !ReadUserMemory(from, values.data(), count * sizeof(T))) {
    return std::nullopt;
  }
  return values;
}

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_USER_MEMORY_H_
