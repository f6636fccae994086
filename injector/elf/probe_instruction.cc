#include "injector/elf/probe_instruction.h"

#include <errno.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "userspace/base/errno_status.h"

namespace rocattach {
namespace {

constexpr uint8_t kTwoByteEscape = 0x0f;
constexpr uint8_t kOperandSize = 0x66;

// A prefix that the kernel's uprobes refuse (is_prefix_bad in
// arch/x86/kernel/uprobes.c); null for any other byte.
const char* RefusedPrefix(uint8_t byte) {
  switch (byte) {
    case 0xf0:
      return "lock";
    case 0x26:
      return "es segment override";
    case 0x2e:
      return "cs segment override";
    case 0x36:
      return "ss segment override";
    case 0x3e:
      return "ds segment override";
    default:
      return nullptr;
  }
}

bool IsOtherPrefix(uint8_t byte) {
  return byte == 0x64 || byte == 0x65 || byte == kOperandSize || byte == 0x67 ||
         byte == 0xf2 || byte == 0xf3;
}

// One-byte opcodes.
const char* RefusedOpcode(uint8_t opcode) {
  switch (opcode) {
    case 0x6c:
    case 0x6d:
      return "ins";
    case 0x6e:
    case 0x6f:
      return "outs";
    case 0xcc:
      return "int3";
    case 0xcd:
      return "int";
    case 0xcf:
      return "iret";
    case 0xe4:
    case 0xe5:
    case 0xec:
    case 0xed:
      return "in";
    case 0xe6:
    case 0xe7:
    case 0xee:
    case 0xef:
      return "out";
    case 0xf1:
      return "int1";
    case 0xf4:
      return "hlt";
    case 0xfa:
      return "cli";
    case 0xfb:
      return "sti";
    case 0x06:
    case 0x07:
    case 0x0e:
    case 0x16:
    case 0x17:
    case 0x1e:
    case 0x1f:
    case 0x27:
    case 0x2f:
    case 0x37:
    case 0x3f:
    case 0x60:
    case 0x61:
    case 0x82:
    case 0x9a:
    case 0xce:
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xea:
      return "an opcode that 64-bit code does not have";
    default:
      return nullptr;
  }
}

// Opcodes after 0x0f.
const char* RefusedTwoByteOpcode(uint8_t opcode) {
  switch (opcode) {
    case 0x05:
      return "syscall";
    case 0x06:
      return "clts";
    case 0x07:
      return "sysret";
    case 0x08:
      return "invd";
    case 0x09:
      return "wbinvd";
    case 0x0b:
      return "ud2";
    case 0x30:
      return "wrmsr";
    case 0x34:
      return "sysenter";
    case 0x35:
      return "sysexit";
    case 0x37:
      return "getsec";
    default:
      return nullptr;
  }
}

// Branches that the kernel emulates, but not with 16-bit operands.
bool IsRelativeBranch(uint8_t opcode) {
  return opcode == 0xe8 || opcode == 0xe9 || opcode == 0xeb || (opcode & 0xf0) == 0x70;
}

std::string Name(const char* name) {
  return name == nullptr ? "" : name;
}

}  // namespace

std::string RefusedByUprobes(absl::Span<const uint8_t> code) {
  code = code.subspan(0, kLongestInstruction);
  bool short_operands = false;
  size_t at = 0;
  for (; at < code.size(); ++at) {
    if (const char* refused = RefusedPrefix(code[at])) {
      return absl::StrCat("a ", refused, " prefix");
    }
    if (!IsOtherPrefix(code[at])) break;
    short_operands |= code[at] == kOperandSize;
  }
  if (at < code.size() && (code[at] & 0xf0) == 0x40) ++at;  // REX
  if (at >= code.size()) return "no whole instruction";
  const uint8_t opcode = code[at];
  const bool has_next = at + 1 < code.size();
  if (opcode == kTwoByteEscape) {
    if (!has_next) return "no whole instruction";
    const uint8_t second = code[at + 1];
    if (short_operands && (second & 0xf0) == 0x80) return "a branch of 16 bits";
    return Name(RefusedTwoByteOpcode(second));
  }
  if (short_operands && IsRelativeBranch(opcode)) return "a branch of 16 bits";
  // It masks the exception through which the kernel regains control of the thread.
  if (opcode == 0x8e && has_next && (code[at + 1] >> 3 & 7) == 2) return "mov to ss";
  return Name(RefusedOpcode(opcode));
}

absl::Status CheckProbeInstruction(int fd, uint64_t file_offset) {
  uint8_t code[kLongestInstruction];
  ssize_t n;
  do {
    n = pread(fd, code, sizeof(code), static_cast<off_t>(file_offset));
  } while (n < 0 && errno == EINTR);
  if (n < 0) {
    return ErrnoStatus(
        errno, absl::StrFormat("pread(%d, 15 bytes at %#x) failed", fd, file_offset));
  }
  const std::string refused =
      RefusedByUprobes(absl::MakeSpan(code, static_cast<size_t>(n)));
  if (refused.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrFormat("the first instruction of hsa_init has %s, which cannot carry a "
                      "uprobe; processes "
                      "that use this file are not seen",
                      refused));
}

}  // namespace rocattach
