#include "injector/elf/probe_instruction.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <vector>

namespace rocattach {
namespace {

struct Case {
  const char* name;
  std::vector<uint8_t> code;
  const char* refused;
};

const Case kCases[] = {
    {"push", {0x55}, ""},
    {"endbr64", {0xf3, 0x0f, 0x1e, 0xfa}, ""},
    {"sub_rsp", {0x48, 0x83, 0xec, 0x18}, ""},
    {"lea_rip", {0x48, 0x8d, 0x05, 1, 2, 3, 4}, ""},
    {"mov_fs", {0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, ""},
    {"jmp", {0xe9, 1, 2, 3, 4}, ""},
    {"call", {0xe8, 1, 2, 3, 4}, ""},
    {"je", {0x0f, 0x84, 1, 2, 3, 4}, ""},
    {"nop5", {0x0f, 0x1f, 0x44, 0, 0}, ""},
    {"nop2", {0x66, 0x90}, ""},
    {"mov_ds", {0x8e, 0xd8}, ""},
    {"syscall", {0x0f, 0x05}, "syscall"},
    {"lock_add", {0xf0, 0x83, 0x00, 0x01}, "a lock prefix"},
    {"lock_behind_others", {0x66, 0xf0, 0xff, 0x00}, "a lock prefix"},
    {"lock_cmpxchg", {0xf0, 0x48, 0x0f, 0xb1, 0x0f}, "a lock prefix"},
    {"cs_nop", {0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, "a cs segment override prefix"},
    {"notrack_jmp", {0x3e, 0xff, 0xe0}, "a ds segment override prefix"},
    {"int3", {0xcc}, "int3"},
    {"hlt", {0xf4}, "hlt"},
    {"ud2", {0x0f, 0x0b}, "ud2"},
    {"in", {0xec}, "in"},
    {"mov_ss", {0x8e, 0xd0}, "mov to ss"},
    {"call16", {0x66, 0xe8, 1, 2}, "a branch of 16 bits"},
    {"push_es", {0x06}, "an opcode that 64-bit code does not have"},
    {"only_prefixes", {0x66, 0x66}, "no whole instruction"},
    {"nothing", {}, "no whole instruction"},
};

class RefusedByUprobesTest : public testing::TestWithParam<Case> {};

TEST_P(RefusedByUprobesTest, NamesRefusedInstructions) {
  EXPECT_EQ(RefusedByUprobes(GetParam().code), GetParam().refused);
}

INSTANTIATE_TEST_SUITE_P(Instructions, RefusedByUprobesTest, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(CheckProbeInstruction, ReadsTheFile) {
  char path[] = "/tmp/rocattach-probe-test.XXXXXX";
  const int fd = mkstemp(path);
  ASSERT_GE(fd, 0);
  unlink(path);
  const uint8_t code[] = {0x55, 0x0f, 0x05};
  ASSERT_EQ(write(fd, code, sizeof(code)), static_cast<ssize_t>(sizeof(code)));
  EXPECT_TRUE(CheckProbeInstruction(fd, 0).ok());
  const absl::Status refused = CheckProbeInstruction(fd, 1);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(refused.message().find("syscall"), std::string::npos) << refused;
  EXPECT_FALSE(CheckProbeInstruction(fd, 100).ok());
  close(fd);
}

}  // namespace
}  // namespace rocattach
