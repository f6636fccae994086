// Determines whether a thread is inside the allocator that its program brings.
#ifndef ROCATTACH_INJECTOR_PROCESS_ALLOCATOR_FRAMES_H_
#define ROCATTACH_INJECTOR_PROCESS_ALLOCATOR_FRAMES_H_

#include <sys/types.h>
#include <sys/user.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "injector/elf/byte_source.h"
#include "injector/elf/elf_image.h"
#include "injector/elf/unwind_table.h"
#include "injector/process/maps.h"
#include "injector/process/target_memory.h"
#include "injector/stub/remote_address.h"
#include "userspace/base/unique_fd.h"

namespace rocattach {

// Recognizes the allocator's code. In a library that provides malloc, every function
// counts; in the program itself, only those that replace functions of the C library,
// and those that were called by their names. All objects passed to it must outlive it.
class AllocatorFrames {
 public:
  AllocatorFrames(pid_t pid, const Maps& maps, const TargetMemory& memory)
      : pid_(pid), maps_(maps), memory_(memory) {}

  // `malloc` is the function that the program uses.
  void SetMalloc(RemoteAddress malloc);

  // True if `mapping` is a part of the allocator's file.
  bool IsPart(const Mapping& mapping) const {
    return file_ != nullptr && mapping.SameFile(*file_);
  }

  // Unwinds the callers of the thread with these registers, and describes the first one
  // that is a call of the allocator; empty if none is. Threads that the allocator's
  // library started, or a `main` that it wrapped, are not calls of the allocator. Where
  // the stack cannot be unwound, the rest of it is searched as by FindAddress.
  std::optional<std::string> FindCall(const user_regs_struct& registers);

  // Describes the first address of the allocator among these words of a stack, if any.
  std::optional<std::string> FindAddress(absl::Span<const uint64_t> words) const;

 private:
  struct Module {
    explicit Module(UniqueFd file) : fd(std::move(file)), source(fd.get()) {}
    UniqueFd fd;
    FileSource source;
    std::optional<ElfImage> image;
    uint64_t bias = 0;
  };
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  absl::StatusOr<const Module*> ModuleOf(const Mapping& mapping);
  absl::StatusOr<UnwindRegisters> Caller(const UnwindRegisters& frame, bool first);
  bool Inside(uint64_t address) const;
  bool IsFunction(uint64_t address) const;
  std::optional<uint64_t> ReadWord(uint64_t address) const;
  // The function that was called by the instruction before this return address, which
  // need not be the one that now runs: compilers turn a tail call into a jump. 0 for
  // calls through registers.
  uint64_t Called(uint64_t return_address) const;
  // True if the first of these return addresses is in a function of the allocator that
  // was called from outside.
  bool IsCall(absl::Span<const uint64_t> callers) const;
  std::optional<std::string> Describe(uint64_t address) const;

  const pid_t pid_;
  const Maps& maps_;
  const TargetMemory& memory_;
  const Mapping* file_ = nullptr;
  bool is_program_ = false;
  std::vector<Range> functions_;                         // replacing the C library's
  std::map<uint64_t, std::unique_ptr<Module>> modules_;  // by the mapping's start
};

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_ALLOCATOR_FRAMES_H_
