// Sources of the bytes of an ELF image: a file, a buffer, a target's memory.
#ifndef ROCATTACH_INJECTOR_ELF_BYTE_SOURCE_H_
#define ROCATTACH_INJECTOR_ELF_BYTE_SOURCE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"

namespace rocattach {

// Random access to untrusted bytes.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // Fills all of `buffer` from `position` or fails (OUT_OF_RANGE past the end).
  virtual absl::Status ReadAt(uint64_t position, void* buffer, size_t bytes) const = 0;
};

// An open file, read with pread: if the file shrinks meanwhile, that is an error,
// whereas a mapping would raise SIGBUS. Does not own the descriptor.
class FileSource : public ByteSource {
 public:
  explicit FileSource(int fd) : fd_(fd) {}
  absl::Status ReadAt(uint64_t position, void* buffer, size_t bytes) const override;

 private:
  int fd_;
};

// Bytes in this process. Does not own them.
class BufferSource : public ByteSource {
 public:
  explicit BufferSource(absl::string_view bytes) : bytes_(bytes) {}
  absl::Status ReadAt(uint64_t position, void* buffer, size_t bytes) const override;

 private:
  absl::string_view bytes_;
};

// An image as the target's loader mapped it: position 0 is the load bias. Does not own
// the memory.
class MemorySource : public ByteSource {
 public:
  MemorySource(const TargetMemory* memory, RemoteAddress bias)
      : memory_(memory), bias_(bias) {}
  absl::Status ReadAt(uint64_t position, void* buffer, size_t bytes) const override;

 private:
  const TargetMemory* memory_;
  RemoteAddress bias_;
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_BYTE_SOURCE_H_
