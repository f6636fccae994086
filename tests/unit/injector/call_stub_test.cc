#include "injector/stub/call_stub.h"

#include <gtest/gtest.h>

#include <cstring>

#include "injector/stub/call_frame.h"
#include "injector/stub/stub.h"

namespace rocattach {
namespace {

CallSpec Plan() {
  CallSpec plan;
  plan.function = RemoteAddress(0x1000);
  plan.arguments = {std::string("one"), std::string(100, 'x')};
  plan.errno_location = RemoteAddress(0x2000);
  plan.return_ip = RemoteAddress(0x3000);
  plan.stack_pointer = RemoteAddress(0x7fff12345678);
  plan.xstate_bytes = XstateBytes();
  plan.purpose = 7;
  return plan;
}

// The data of the call lies below the thread's frame, within CallStackBytes(), and is
// aligned as XSAVE and the ABI require.
TEST(CallStub, ItsStackIsBelowTheThreads) {
  for (uint64_t unaligned : {0, 1, 8, 63}) {
    CallSpec plan = Plan();
    plan.stack_pointer = plan.stack_pointer - unaligned;
    auto built = BuildCall(plan);
    ASSERT_TRUE(built.ok()) << built.status();
    EXPECT_EQ(built->stub.size(), CallStubBytes());
    EXPECT_EQ(built->stack_address.value() % 64, 0u);
    EXPECT_LE(built->stack_address + built->stack.size(),
              plan.stack_pointer - CALL_GAP);
    EXPECT_GE(built->stack_address, plan.stack_pointer - CallStackBytes(plan) - 64);
    EXPECT_EQ(built->block - built->stack_address, (plan.xstate_bytes + 63) / 64 * 64);
    CallBlock block;
    std::memcpy(&block, built->stack.data() + (built->block - built->stack_address),
                sizeof(block));
    EXPECT_TRUE(IsCallBlock(block));
    EXPECT_EQ(block.state, 0u);
    EXPECT_EQ(built->stack.find_first_not_of('\0'),
              built->block - built->stack_address);
    EXPECT_NE(built->stack.find(std::string(100, 'x')), std::string::npos);
  }
}

TEST(CallStub, IsRecognisedInItsRoom) {
  auto built = BuildCall(Plan());
  ASSERT_TRUE(built.ok());
  std::string room = built->stub + std::string(8, '\0');
  auto found = CallInRoom(room);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->purpose, 7u);
  EXPECT_EQ(found->return_ip.value(), 0x3000u);
  EXPECT_EQ(found->block, built->block);
  EXPECT_FALSE(CallInRoom("").has_value());
  EXPECT_FALSE(CallInRoom(room.substr(0, CallStubBytes() - 1)).has_value());
  EXPECT_FALSE(CallInRoom(std::string(room.size(), '\0')).has_value());
  for (size_t broken : {size_t{3}, CallStubBytes() - 1}) {
    std::string other = room;
    other[broken] ^= 1;
    EXPECT_FALSE(CallInRoom(other).has_value()) << broken;
  }
  CallBlock block;
  EXPECT_FALSE(IsCallBlock(block));
}

TEST(CallStub, RefusesImpossiblePlans) {
  CallSpec plan = Plan();
  plan.arguments[0] = std::string(kMaxCallArguments, 'x');
  EXPECT_EQ(BuildCall(plan).status().code(), absl::StatusCode::kOutOfRange);
  plan = Plan();
  plan.function = RemoteAddress();
  EXPECT_EQ(BuildCall(plan).status().code(), absl::StatusCode::kInvalidArgument);
  plan = Plan();
  plan.stack_pointer = RemoteAddress(100);
  EXPECT_EQ(BuildCall(plan).status().code(), absl::StatusCode::kInvalidArgument);
  plan = Plan();
  plan.xstate_bytes = 0;
  EXPECT_EQ(BuildCall(plan).status().code(), absl::StatusCode::kInvalidArgument);
  // Null pointers are valid arguments, too.
  plan = Plan();
  plan.arguments = {};
  EXPECT_TRUE(BuildCall(plan).ok());
}

}  // namespace
}  // namespace rocattach
