// Checks whether an instruction can carry a uprobe.
#ifndef ROCATTACH_INJECTOR_ELF_PROBE_INSTRUCTION_H_
#define ROCATTACH_INJECTOR_ELF_PROBE_INSTRUCTION_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace rocattach {

// The longest x86 instruction.
inline constexpr size_t kLongestInstruction = 15;

// The kernel executes a probed instruction from a copy elsewhere, or emulates it, and
// refuses those for which it can do neither. It does so only when a process maps the
// file: a probe that was registered before is then silently omitted there, so this
// checks first. Returns the name of what is refused in the x86-64 instruction at the
// start of `code`, for example "a lock prefix"; empty if nothing is known to be wrong
// with it. Also refuses instructions that newer kernels accept but that behave
// differently in the copy, such as syscall, which leaves its own address in rcx and in
// which the thread cannot be stopped. Instructions that the kernel refuses for other
// reasons (an extension that it does not know yet) are accepted.
std::string RefusedByUprobes(absl::Span<const uint8_t> code);

// Reads the instruction at `file_offset` of the file `fd`. FAILED_PRECONDITION with the
// instruction's name if it cannot carry a uprobe.
absl::Status CheckProbeInstruction(int fd, uint64_t file_offset);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_PROBE_INSTRUCTION_H_
