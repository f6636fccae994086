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
// The bytes in between are not decoded, and more loads relative to rip may come first,
// such as the load of a tracepoint's state. So every load of a 64-bit register relative
// to rip is a candidate for the load of the variable, and the next load, call or jump
// through that register is the use of the entry. Which candidate is right is found out
// by comparing several functions (live_table.h).
//
// Yields the candidates in the order of the code: `bytes` bytes of the function at
// `address`, of which at most kTableJumpBytes matter.
class TableJumps {
 public:
  static constexpr size_t kTableJumpBytes = 128;

  TableJumps(const uint8_t* code, size_t bytes, uint64_t address)
      : begin_(code),
        at_(code),
        end_(code + (bytes < kTableJumpBytes ? bytes : kTableJumpBytes)),
        address_(address) {}

  // False if there are no more.
  bool Next(TableJump* jump);

 private:
  const uint8_t* begin_;
  const uint8_t* at_;
  const uint8_t* end_;
  uint64_t address_;
};

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_TABLE_JUMP_H_
