#include "userspace/collector/hsa/table_jump.h"

#include <string.h>

namespace rocattach::collector {
namespace {

// Instruction encoding: Intel SDM volume 2, chapter 2.
constexpr uint8_t kRexW = 0x08, kRexR = 0x04, kRexB = 0x01;
constexpr uint8_t kMovLoad = 0x8b;  // mov r64, r/m64
constexpr uint8_t kGroup5 = 0xff;   // /2 call r/m64, /4 jmp r/m64
// Value of rm in modrm: a SIB byte follows.
constexpr uint8_t kSib = 4;

bool IsRex(uint8_t byte) {
  return (byte & 0xf0) == 0x40;
}

int32_t Int32(const uint8_t* at) {
  int32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

// The displacement of a memory operand [register + displacement] whose modrm is at
// `at`; false if it is another operand.
bool Operand(const uint8_t* at, const uint8_t* end, int base, uint8_t rex,
             int32_t* offset) {
  const uint8_t mod = at[0] >> 6, rm = at[0] & 7;
  if (rm == kSib || (rm | ((rex & kRexB) != 0 ? 8 : 0)) != base) return false;
  switch (mod) {
    case 0:
      *offset = 0;
      return rm != 5;  // relative to rip
    case 1:
      if (end - at < 2) return false;
      *offset = at[1] < 0x80 ? at[1] : at[1] - 0x100;
      return true;
    case 2:
      if (end - at < 5) return false;
      *offset = Int32(at + 1);
      return true;
    default:
      return false;
  }
}

constexpr int kLoadBytes = 7;  // REX, opcode, modrm, four bytes of displacement

// The register of a 64-bit load relative to rip; -1 if there is none at `at`.
int LoadedRegister(const uint8_t* at, const uint8_t* end) {
  if (end - at < kLoadBytes || !IsRex(at[0]) || (at[0] & kRexW) == 0 ||
      at[1] != kMovLoad || (at[2] & 0xc7) != 0x05) {
    return -1;
  }
  return ((at[2] >> 3) & 7) | ((at[0] & kRexR) != 0 ? 8 : 0);
}

// Searches from `at` for the use of the register, until another variable is loaded.
bool FindEntry(const uint8_t* at, const uint8_t* end, int base, int32_t* offset) {
  for (; end - at >= 3; ++at) {
    if (LoadedRegister(at, end) == base) return false;
    const uint8_t rex = IsRex(at[0]) ? at[0] : 0;
    const uint8_t* op = rex != 0 ? at + 1 : at;
    if (*op == kMovLoad && (rex & kRexW) != 0 &&
        Operand(op + 1, end, base, rex, offset)) {
      return true;
    }
    if (*op != kGroup5) continue;
    const uint8_t extension = (op[1] >> 3) & 7;
    if ((extension == 2 || extension == 4) && Operand(op + 1, end, base, rex, offset)) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool TableJumps::Next(TableJump* jump) {
  for (; end_ - at_ >= kLoadBytes; ++at_) {
    const int base = LoadedRegister(at_, end_);
    if (base < 0 || !FindEntry(at_ + kLoadBytes, end_, base, &jump->offset)) continue;
    jump->variable = address_ + static_cast<uint64_t>(at_ - begin_) + kLoadBytes +
                     static_cast<uint64_t>(int64_t{Int32(at_ + 3)});
    ++at_;
    return true;
  }
  return false;
}

}  // namespace rocattach::collector
