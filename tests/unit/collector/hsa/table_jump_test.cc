#include "userspace/collector/hsa/table_jump.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace rocattach::collector {
namespace {

constexpr uint64_t kAddress = 0x7f0000001000;

struct Form {
  const char* name;
  std::vector<uint8_t> code;
  uint64_t variable;
  int32_t offset;
};

// Code that gcc and clang have generated for `return table->function(…)`.
const Form kForms[] = {
    {"mov rel(%rip),%rax; jmp *d8(%rax)",
     {0x48, 0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, 0xff, 0x60, 0x48},
     kAddress + 7 + 0x10,
     0x48},
    {"mov rel(%rip),%rax; jmp *d32(%rax)",
     {0x48, 0x8b, 0x05, 0xf0, 0xff, 0xff, 0xff, 0xff, 0xa0, 0x60, 0x01, 0x00, 0x00},
     kAddress + 7 - 0x10,
     0x160},
    {"mov; mov d32(%rax),%rax; jmp *%rax",
     {0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0x48, 0x8b, 0x80, 0xc0, 0x02, 0, 0, 0xff, 0xe0},
     kAddress + 7 + 0x10,
     0x2c0},
    {"endbr64; mov; movzx %dl,%edx; mov d8(%rax),%rax; jmp *%rax",
     {0xf3, 0x0f, 0x1e, 0xfa, 0x48, 0x8b, 0x05, 0x10, 0,    0,
      0,    0x0f, 0xb6, 0xd2, 0x48, 0x8b, 0x40, 0x20, 0xff, 0xe0},
     kAddress + 11 + 0x10,
     0x20},
    {"sub $8,%rsp; mov; call *d32(%rax)",
     {0x48, 0x83, 0xec, 0x08, 0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xff, 0x90, 0x88, 0, 0,
      0},
     kAddress + 11 + 0x10,
     0x88},
    {"push %rbp; mov %rsp,%rbp; mov; mov d32(%rax),%r8; mov -8(%rbp),%rdi; call *%r8",
     {0x55, 0x48, 0x89, 0xe5, 0x48, 0x8b, 0x05, 0x10, 0,    0,    0,    0x4c, 0x8b,
      0x80, 0x40, 0x01, 0,    0,    0x48, 0x8b, 0x7d, 0xf8, 0x41, 0xff, 0xd0},
     kAddress + 11 + 0x10,
     0x140},
    {"mov rel(%rip),%r11; jmp *d8(%r11)",
     {0x4c, 0x8b, 0x1d, 0x10, 0, 0, 0, 0x41, 0xff, 0x63, 0x50},
     kAddress + 7 + 0x10,
     0x50},
};

std::vector<TableJump> Decode(const std::vector<uint8_t>& code) {
  std::vector<TableJump> all;
  TableJumps jumps(code.data(), code.size(), kAddress);
  for (TableJump jump; jumps.Next(&jump);) all.push_back(jump);
  return all;
}

TEST(TableJumpTest, DecodesEveryForm) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    const std::vector<TableJump> jumps = Decode(form.code);
    ASSERT_EQ(jumps.size(), 1u);
    EXPECT_EQ(jumps[0].variable, form.variable);
    EXPECT_EQ(jumps[0].offset, form.offset);
  }
}

// The first call is made only while a tracer is active.
TEST(TableJumpTest, ATracepointInFrontIsAnotherCandidate) {
  // mov rel(%rip),%rax; test %rax,%rax; je; mov $name,%edi; call *%rax;
  // mov rel(%rip),%rdx; jmp *0x48(%rdx)
  const std::vector<TableJump> other_register =
      Decode({0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0,    0x48, 0x85, 0xc0,
              0x74, 0x07, 0xbf, 0x01, 0,    0, 0,    0xff, 0xd0, 0x48,
              0x8b, 0x15, 0x10, 0,    0,    0, 0xff, 0x62, 0x48});
  ASSERT_FALSE(other_register.empty());
  EXPECT_EQ(other_register.back().variable, kAddress + 26 + 0x10);
  EXPECT_EQ(other_register.back().offset, 0x48);
  // The same with one register: its first use is over when it gets the table.
  const std::vector<TableJump> same_register =
      Decode({0x48, 0x8b, 0x05, 0x00, 0x01, 0, 0,    0x48, 0x85, 0xc0,
              0x74, 0x07, 0xbf, 0x01, 0,    0, 0,    0xff, 0xd0, 0x48,
              0x8b, 0x05, 0x10, 0,    0,    0, 0xff, 0x60, 0x48});
  ASSERT_EQ(same_register.size(), 1u);
  EXPECT_EQ(same_register[0].variable, kAddress + 26 + 0x10);
  EXPECT_EQ(same_register[0].offset, 0x48);
}

// Wherever the code is cut off, nothing is read behind its end, which the sanitizers
// check, and half an instruction yields no answer.
TEST(TableJumpTest, CutCodeHasNoAnswerOrTheRightOne) {
  for (const Form& form : kForms) {
    SCOPED_TRACE(form.name);
    for (size_t bytes = 0; bytes < form.code.size(); ++bytes) {
      const std::vector<uint8_t> cut(form.code.begin(),
                                     form.code.begin() + static_cast<long>(bytes));
      for (const TableJump& jump : Decode(cut)) {
        EXPECT_EQ(jump.variable, form.variable) << bytes;
        EXPECT_EQ(jump.offset, form.offset) << bytes;
      }
    }
  }
}

TEST(TableJumpTest, OtherFunctionsHaveNoAnswer) {
  const std::vector<uint8_t> others[] = {
      {0x31, 0xc0, 0xc3},                                         // xor %eax,%eax; ret
      {0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xc3},                    // only the load
      {0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xff, 0x61, 0x48},        // jmp *0x48(%rcx)
      {0x8b, 0x05, 0x10, 0, 0, 0, 0xff, 0x60, 0x48},              // a 32-bit load
      {0x48, 0x8b, 0x05, 0x10, 0, 0, 0, 0xff, 0x25, 0, 0, 0, 0},  // jmp *rel(%rip)
      {},
  };
  for (const std::vector<uint8_t>& code : others) {
    EXPECT_TRUE(Decode(code).empty());
  }
}

// Code behind kTableJumpBytes belongs to another function.
TEST(TableJumpTest, LooksNoFurtherThanItsLimit) {
  const std::vector<uint8_t>& jump_code = kForms[0].code;
  // All bytes of the jump but the last would fit.
  const size_t nops = TableJumps::kTableJumpBytes - jump_code.size() + 1;
  std::vector<uint8_t> code(nops + jump_code.size(), 0x90);
  std::copy(jump_code.begin(), jump_code.end(), code.begin() + static_cast<long>(nops));
  EXPECT_TRUE(Decode(code).empty());
}

}  // namespace
}  // namespace rocattach::collector
