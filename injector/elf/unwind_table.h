// Unwind information of one ELF image (.eh_frame), as far as compilers write it for
// ordinary functions of x86-64.
#ifndef ROCATTACH_INJECTOR_ELF_UNWIND_TABLE_H_
#define ROCATTACH_INJECTOR_ELF_UNWIND_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "injector/elf/elf_image.h"

namespace rocattach {

// Registers of one call frame by their DWARF numbers; empty: not known.
constexpr size_t kUnwindRegisters = 17;
constexpr size_t kUnwindRsp = 7;
constexpr size_t kUnwindReturn = 16;  // the return address, or where the frame executes
using UnwindRegisters = std::array<std::optional<uint64_t>, kUnwindRegisters>;

// Reads eight bytes of the target; empty if it cannot.
using ReadWord = absl::FunctionRef<std::optional<uint64_t>(uint64_t)>;

// The caller's registers of a frame that executes at the linked address `vaddr`, from
// those of the frame. kUnwindReturn is empty if there is no caller. NOT_FOUND: no
// function of the table is there. UNIMPLEMENTED, INVALID_ARGUMENT, OUT_OF_RANGE: its
// data are not supported, or wrong. Nothing in the image is trusted: each loop is
// bounded by the size of what it reads, and that by a limit.
absl::StatusOr<UnwindRegisters> UnwindFrame(const ElfImage& image, uint64_t vaddr,
                                            const UnwindRegisters& frame,
                                            ReadWord read);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_ELF_UNWIND_TABLE_H_
