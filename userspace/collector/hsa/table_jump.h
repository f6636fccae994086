// Decodes the machine code of an exported HSA function.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_TABLE_JUMP_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_TABLE_JUMP_H_

#include <stddef.h>
#include <stdint.h>

namespace rocattach::collector {

// Each exported HSA function loads the pointer to an API table from a variable of the
// runtime and calls, or jumps through, one entry of that table.
struct TableJump {
  uint64_t variable;  // address of the variable
  int32_t offset;     // of the entry, from the beginning of the table
};

// Compilers write it in several forms, with more instructions before and between:
//   mov variable(%rip),%rax; jmp *offset(%rax)
//   mov variable(%rip),%rax; mov offset(%rax),%rax; jmp *%rax     or call
// So the first load of a 64-bit register relative to rip is taken as that of the
// variable, and the next load, call or jump through that register as that of the entry.
// The bytes in between are not decoded, so a wrong result is possible; it is detected
// by comparing several functions (live_table.h).
//
// `code` are `bytes` bytes of the function at `address`, of which at most
// kTableJumpBytes matter. False if neither form is found.
constexpr size_t kTableJumpBytes = 64;
bool DecodeTableJump(const uint8_t* code, size_t bytes, uint64_t address,
                     TableJump* jump);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_TABLE_JUMP_H_
