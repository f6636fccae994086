#include "injector/stub/stub.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <string.h>

#include <cstring>
#include <utility>

#include "injector/stub/code_cave.h"
#include "injector/stub/stub_frame.h"

namespace rocattach {
namespace {

StubSpec GoodPlan() {
  StubSpec plan;
  plan.return_ip = RemoteAddress(0x1111111111111111);
  plan.functions = {
      RemoteAddress(0x2222222222222222), RemoteAddress(0x3333333333333333),
      RemoteAddress(0x4444444444444444), RemoteAddress(0x5555555555555555),
      RemoteAddress(0x8888888888888888), RemoteAddress(0x9999999999999999)};
  plan.locks = {RemoteAddress(0xaaaaaaaaaaaaaaaa), RemoteAddress(0xbbbbbbbbbbbbbbbb)};
  plan.xstate_bytes = 0x66666666;
  plan.config.window_id = 0x7777777777777777;
  std::strcpy(plan.config.collector_path, "/opt/collector.so");
  plan.socket.name.fill(0xcc);
  plan.socket.key = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  return plan;
}

// The offset in the built stub to which a rip-relative operand points, for the
// instruction whose opcode bytes are `opcode` (the displacement follows them).
size_t OperandOf(const std::string& stub, const std::string& opcode, int which = 0) {
  size_t at = stub.find(opcode);
  for (; which > 0 && at != std::string::npos; --which) at = stub.find(opcode, at + 1);
  if (at == std::string::npos) return 0;
  int32_t displacement;
  std::memcpy(&displacement, stub.data() + at + opcode.size(), sizeof(displacement));
  return at + opcode.size() + 4 + static_cast<size_t>(displacement);
}

uint64_t WordAt(const std::string& stub, size_t offset) {
  uint64_t word = 0;
  if (offset + sizeof(word) <= stub.size()) std::memcpy(&word, &stub[offset], 8);
  return word;
}

class StubKindTest : public testing::TestWithParam<StubKind> {
 protected:
  static StubSpec Plan() {
    StubSpec plan = GoodPlan();
    plan.kind = GetParam();
    return plan;
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, StubKindTest,
                         testing::Values(StubKind::kByPath, StubKind::kByDescriptor),
                         [](const auto& test) {
                           return std::string(test.param == StubKind::kByPath
                                                  ? "ByPath"
                                                  : "ByDescriptor");
                         });

TEST_P(StubKindTest, InstructionsReachTheirParameters) {
  auto built = BuildStub(Plan());
  ASSERT_TRUE(built.ok()) << built.status();
  const std::string& stub = *built;
  EXPECT_EQ(stub.size(), StubBytes(GetParam()));
  EXPECT_LE(stub.size(), GetParam() == StubKind::kByPath ? 1216u : 1600u);
  const std::string call("\xff\x15", 2), jump("\xff\x25", 2), push("\xff\x35", 2);
  EXPECT_EQ(WordAt(stub, OperandOf(stub, push)), 0x1111111111111111u);
  EXPECT_EQ(WordAt(stub, OperandOf(stub, jump)), 0x1111111111111111u);
  // The address behind the system call, if it ends instead of beginning again.
  EXPECT_EQ(WordAt(stub, OperandOf(stub, jump, 1)), 0x1111111111111113u);
  // errno; try, try, unlock; unlock; dlopen, dlsym, dlerror; unlock.
  const uint64_t called[] = {
      0x5555555555555555, 0x8888888888888888, 0x8888888888888888,
      0x9999999999999999, 0x9999999999999999, 0x2222222222222222,
      0x3333333333333333, 0x4444444444444444, 0x9999999999999999};
  for (size_t i = 0; i < std::size(called); ++i) {
    EXPECT_EQ(WordAt(stub, OperandOf(stub, call, static_cast<int>(i))), called[i]) << i;
  }
  // mov lock(%rip), %rdi, each before its call.
  const std::string mov_rdi("\x48\x8b\x3d", 3);
  const uint64_t locks[] = {0xaaaaaaaaaaaaaaaa, 0xbbbbbbbbbbbbbbbb, 0xaaaaaaaaaaaaaaaa,
                            0xbbbbbbbbbbbbbbbb, 0xaaaaaaaaaaaaaaaa};
  for (size_t i = 0; i < std::size(locks); ++i) {
    EXPECT_EQ(WordAt(stub, OperandOf(stub, mov_rdi, static_cast<int>(i))), locks[i])
        << i;
  }
  // mov xstate_bytes(%rip), %eax
  EXPECT_EQ(WordAt(stub, OperandOf(stub, std::string("\x8b\x05", 2))) & 0xffffffff,
            0x66666666u);
  // lea X(%rip), %rdi: the path, unless a file is sent, and the config; %rsi: the mask,
  // texts for a file that is sent, the name.
  const bool is_sent = GetParam() == StubKind::kByDescriptor;
  const std::string lea_rdi("\x48\x8d\x3d", 3), lea_rsi("\x48\x8d\x35", 3);
  if (!is_sent) {
    EXPECT_STREQ(&stub[OperandOf(stub, lea_rdi, 0)], "/opt/collector.so");
  }
  rocattach_collector_config config;
  std::memcpy(&config, &stub[OperandOf(stub, lea_rdi, is_sent ? 0 : 1)],
              sizeof(config));
  EXPECT_EQ(config.window_id, 0x7777777777777777u);
  EXPECT_STREQ(config.collector_path, "/opt/collector.so");
  if (is_sent) {
    const StubSocket socket = Plan().socket;
    socklen_t bytes = 0;
    const sockaddr_un address = socket.Address(&bytes);
    EXPECT_EQ(memcmp(&stub[OperandOf(stub, lea_rsi, 1)], &address, bytes), 0);
    EXPECT_STREQ(&stub[OperandOf(stub, lea_rsi, 2)],
                 "/proc/thread-self/fd/././././././");
    EXPECT_STREQ(&stub[OperandOf(stub, lea_rsi, 3)],
                 "/memfd:librocattach-collector.so");
    // cmp key(%rip), %rdx
    const std::string cmp_rdx("\x48\x3b\x15", 3);
    for (int half : {0, 1}) {
      EXPECT_EQ(memcmp(&stub[OperandOf(stub, cmp_rdx, half)], &socket.key[8 * half], 8),
                0)
          << half;
    }
  }
  EXPECT_STREQ(&stub[OperandOf(stub, lea_rsi, is_sent ? 4 : 1)],
               ROCATTACH_COLLECTOR_START);
}

// The two bytes before each of these offsets are a system call.
TEST(StubTest, TheServiceKnowsWhenTheSocketIsThere) {
  StubSpec plan = GoodPlan();
  plan.kind = StubKind::kByDescriptor;
  auto built = BuildStub(plan);
  ASSERT_TRUE(built.ok()) << built.status();
  EXPECT_LT(StubSocketMade(), StubSocketBound());
  for (size_t place : {StubSocketMade(), StubSocketBound()}) {
    EXPECT_EQ(built->substr(place - 2, 2), "\x0f\x05") << place;
  }
}

TEST(StubTest, EachSocketHasANameAndAKeyOfItsOwn) {
  auto one = StubSocket::Random(), other = StubSocket::Random();
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_NE(one->name, other->name);
  EXPECT_NE(one->key, other->key);
  EXPECT_NE(one->name, one->key);
  socklen_t bytes = 0;
  const sockaddr_un address = one->Address(&bytes);
  EXPECT_EQ(address.sun_path[0], '\0');
  EXPECT_EQ(bytes, 3 + one->name.size());
}

TEST(StubTest, DoesNotBlockFaultsAndGlibcsSetuidSignal) {
  auto built = BuildStub(GoodPlan());
  ASSERT_TRUE(built.ok());
  uint64_t mask = WordAt(*built, OperandOf(*built, std::string("\x48\x8d\x35", 3), 0));
  for (int open : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT, 33}) {
    EXPECT_EQ(mask >> (open - 1) & 1, 0u) << strsignal(open);
  }
  for (int blocked : {SIGALRM, SIGPROF, SIGUSR1, SIGTERM, SIGCHLD, 32, 34, 64}) {
    EXPECT_EQ(mask >> (blocked - 1) & 1, 1u) << strsignal(blocked);
  }
}

// test restart_flags(%rip), %eax: a handler with one of these flags restarts the call.
TEST_P(StubKindTest, KnowsWhichHandlersEndTheCall) {
  for (const auto& [ending, restarts] :
       {std::pair(EndingHandlers::kNone, 0u),
        {EndingHandlers::kWithoutRestart, uint32_t{SA_RESTART}},
        {EndingHandlers::kAll, 0x400u}}) {
    StubSpec plan = Plan();
    plan.ending_handlers = ending;
    auto built = BuildStub(plan);
    ASSERT_TRUE(built.ok()) << built.status();
    const size_t flags = OperandOf(*built, std::string("\x85\x05", 2));
    EXPECT_EQ(WordAt(*built, flags) & 0xffffffff, restarts);
  }
}

TEST(StubTest, RefusesPlansThatWouldCrash) {
  StubSpec plan = GoodPlan();
  plan.return_ip = RemoteAddress();
  EXPECT_FALSE(BuildStub(plan).ok());
  plan = GoodPlan();
  plan.functions.dlerror = RemoteAddress();
  EXPECT_FALSE(BuildStub(plan).ok());
  plan = GoodPlan();
  plan.functions.mutex_unlock = RemoteAddress();
  EXPECT_FALSE(BuildStub(plan).ok());
  plan.locks = {};
  EXPECT_TRUE(BuildStub(plan).ok()) << "without the locks they are not needed";
  plan = GoodPlan();
  plan.xstate_bytes = 0;
  EXPECT_FALSE(BuildStub(plan).ok());
  plan = GoodPlan();
  plan.config.collector_path[0] = '\0';
  EXPECT_FALSE(BuildStub(plan).ok());
  plan = GoodPlan();
  std::memset(plan.config.collector_path, 'x', sizeof(plan.config.collector_path));
  EXPECT_FALSE(BuildStub(plan).ok());
  plan = GoodPlan();
  std::memset(plan.config.collector_path, 'x', 64);
  EXPECT_TRUE(BuildStub(plan).ok());
  plan.kind = StubKind::kByDescriptor;
  EXPECT_FALSE(BuildStub(plan).ok()) << "the name reaches into the next text";
}

TEST(StubTest, XstateSizeIsPlausible) {
  const uint32_t bytes = XstateBytes();
  ASSERT_NE(bytes, 0u) << "no XSAVE here";
  EXPECT_GE(bytes, 512u + 64u);
  EXPECT_LE(bytes, 64u * 1024u);
  // Most of the stub's own stack is left for the functions that it calls.
  EXPECT_LT(bytes, uint32_t{STUB_STACK_BYTES - STUB_STACK_GUARD} / 2);
}

TEST_P(StubKindTest, IsRecognised) {
  const StubKind kind = GetParam();
  const StubKind other_kind =
      kind == StubKind::kByPath ? StubKind::kByDescriptor : StubKind::kByPath;
  auto built = BuildStub(Plan());
  ASSERT_TRUE(built.ok());
  EXPECT_EQ(ReturnAddressOf(*built, kind).value(), 0x1111111111111111u);
  EXPECT_EQ(ReturnAddressOf(*built + "behind", kind).value(), 0x1111111111111111u);
  EXPECT_TRUE(ReturnAddressOf(*built, other_kind).is_null());
  EXPECT_EQ(FindStub(*built).window_id, 0x7777777777777777u);
  EXPECT_EQ(FindStub(*built + "behind").bytes, built->size());
  for (size_t changed : {size_t{0}, size_t{100}, built->size() - 1}) {
    std::string other = *built;
    ++other[changed];
    EXPECT_TRUE(ReturnAddressOf(other, kind).is_null()) << changed;
    EXPECT_EQ(FindStub(other).bytes, 0u) << changed;
  }
  EXPECT_TRUE(ReturnAddressOf(built->substr(0, built->size() - 1), kind).is_null());
  EXPECT_TRUE(ReturnAddressOf("", kind).is_null());
}

TEST(CodeCaveTest, TheRoomBeginsBehindTheLastUsedByte) {
  EXPECT_EQ(FreeBytesBegin(absl::string_view()), 0u);
  std::string tail(4096 - 100, '\0');
  EXPECT_EQ(FreeBytesBegin(tail), tail.size() % 16);
  tail[500] = 1;
  // Aligned like the end of the page: 3996 - 3488.
  EXPECT_EQ(FreeBytesBegin(tail), 508u);
  EXPECT_EQ((tail.size() - FreeBytesBegin(tail)) % 16, 0u);
  tail.back() = 1;
  EXPECT_EQ(FreeBytesBegin(tail), tail.size());
}

// The bytes of a stub that is there already do not count as free.
TEST(CodeCaveTest, AStubFillsItsRoomToTheEnd) {
  StubSpec plan = GoodPlan();
  auto built = BuildStub(plan);
  ASSERT_TRUE(built.ok());
  std::string tail = *built + std::string(2048, '\0');
  EXPECT_GE(FreeBytesBegin(tail), built->size());
  EXPECT_LT(FreeBytesBegin(tail), built->size() + 16);
}

}  // namespace
}  // namespace rocattach
