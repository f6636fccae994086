// API calls with their messages, and memory operations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/unit/record/session_records_fixture.h"

namespace rocattach {
namespace {

using testing::IsEmpty;

using SessionCallsTest = SessionRecordsTest;

TEST_F(SessionCallsTest, AnApiCallGoesToTheStreamAndTheSession) {
  rocattach_api_call call = ApiCall();
  // The text has no terminating zero and is not printable.
  memset(call.text, 'x', sizeof(call.text));
  call.text[0] = '\x1b';
  call.flags = ROCATTACH_API_TEXT_CUT;
  Consume(call);
  ASSERT_EQ(sink_->calls.size(), 1u);
  EXPECT_EQ(sink_->calls[0].domain, TraceDomain::kMarkers);
  EXPECT_EQ(sink_->calls[0].function, 3u);
  EXPECT_EQ(sink_->calls[0].tid, 11u);
  EXPECT_EQ(sink_->calls[0].correlation_id, 9u);
  EXPECT_EQ(sink_->calls[0].begin_ns, 1000u);
  EXPECT_EQ(sink_->calls[0].end_ns, 2000u);
  EXPECT_EQ(counts().api_calls, 1u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.calls.size(), 1u);
  EXPECT_EQ(written.calls[0].session, kSession);
  EXPECT_EQ(written.calls[0].ancestor_id, 8u);
  EXPECT_EQ(written.calls[0].flags & kApiCallTextCut, kApiCallTextCut);
  EXPECT_EQ(written.calls[0].text.find('\x1b'), std::string::npos);
  EXPECT_EQ(written.calls[0].text.substr(written.calls[0].text.size() - 39),
            std::string(39, 'x'));
}

TEST_F(SessionCallsTest, AMessageOfAnyLengthFollowsItsCall) {
  const std::string first(ROCATTACH_TEXT_SLOT_BYTES, 'a');
  rocattach_api_call call = ApiCall();
  call.text_slots = 2;
  EXPECT_TRUE(Consume(call));
  ConsumeText(0, first);
  EXPECT_THAT(sink_->calls, IsEmpty());
  ConsumeText(1, "end");
  EXPECT_EQ(sink_->calls.size(), 1u);
  ConsumeText(2, "of nothing");
  call.text_slots = 0;
  EXPECT_TRUE(Consume(call));
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.calls.size(), 2u);
  EXPECT_EQ(written.calls[0].text, first + "end");
  EXPECT_EQ(written.calls[0].flags & kApiCallTextCut, 0);
  EXPECT_EQ(written.calls[1].text, "");
}

TEST_F(SessionCallsTest, CallWithAnIncompleteMessageIsMarkedAsCut) {
  rocattach_api_call call = ApiCall();
  call.text_slots = 3;
  Consume(call);
  ConsumeText(0, "one ");
  ConsumeText(2, "three");  // out of order
  Consume(call);
  // Longer than a slot.
  ConsumeText(0, std::string(ROCATTACH_TEXT_SLOT_BYTES + 1, 'x'));
  Consume(call);
  ConsumeText(0, "another operation follows");
  rocattach_dispatch dispatch = Dispatch(1, 0);
  records_->ConsumeDispatch(0, &dispatch);
  Consume(call);  // the process ends
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.calls.size(), 4u);
  const std::vector<std::string> want = {"one ", "", "another operation follows", ""};
  for (size_t i = 0; i < want.size(); ++i) {
    EXPECT_EQ(written.calls[i].text, want[i]);
    EXPECT_NE(written.calls[i].flags & kApiCallTextCut, 0) << i;
  }
  EXPECT_EQ(counts().api_calls, 4u);
}

// A process that begins a long message in each of its rings, and completes none.
TEST_F(SessionCallsTest, IncompleteMessagesOfAProcessAreLimited) {
  constexpr uint16_t kSlots = 745;
  const std::string part(ROCATTACH_TEXT_SLOT_BYTES, 'x');
  rocattach_api_call call = ApiCall();
  strcpy(call.text, "it has room");  // complete at once: does not count
  Consume(call);
  call.text_slots = kSlots;
  for (uint32_t ring = 0; ring < 64; ++ring) {
    records_->ConsumeApiCall(ring, SlotOf(call));
    for (uint16_t slot = 0; slot + 1 < kSlots; ++slot) ConsumeText(slot, part, ring);
  }
  const uint64_t waiting = 65 - counts().api_calls;
  EXPECT_GE(waiting, 15u);
  EXPECT_LE(waiting, 16u);
  for (uint32_t ring = 0; ring < 64; ++ring) records_->EndValues(ring);
  EXPECT_EQ(counts().api_calls, 65u);
  // There is room again after they have ended.
  Consume(call);
  for (uint16_t slot = 0; slot < kSlots; ++slot) ConsumeText(slot, part);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.calls.size(), 66u);
  EXPECT_EQ(written.calls[0].text, "it has room");
  EXPECT_EQ(written.calls[65].text.size(), kSlots * part.size());
  EXPECT_EQ(written.calls[65].flags & kApiCallTextCut, 0);
}

TEST_F(SessionCallsTest, AnApiCallThatMakesNoSenseIsInvalid) {
  const std::vector<std::function<void(rocattach_api_call*)>> changes = {
      [](auto* c) { ++c->plan_tag; },
      [](auto* c) { c->domain = ROCATTACH_PLAN_API_DOMAINS; },
      [](auto* c) { c->function = ROCATTACH_PLAN_API_FUNCTIONS; },
      [](auto* c) { c->end_ns = c->begin_ns - 1; },
      [](auto* c) { c->text_slots = 746; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    rocattach_api_call call = ApiCall();
    changes[i](&call);
    Consume(call);
    EXPECT_EQ(counts().api_calls_invalid, i + 1) << i;
  }
  EXPECT_THAT(sink_->calls, IsEmpty());
  EXPECT_EQ(counts().api_calls, 0u);
  EXPECT_THAT(Finish().calls, IsEmpty());
}

TEST_F(SessionCallsTest, MemoryGoesToTheStream) {
  rocattach_memory memory = {};
  memory.kind = ROCATTACH_RECORD_MEMORY;
  memory.operation = ROCATTACH_MEMORY_SCRATCH_ALLOCATE;
  memory.agent_id = kAgent;
  memory.scratch_flags = 2;
  memory.tid = 77;
  memory.plan_tag = ROCATTACH_PLAN_TAG(kGeneration);
  memory.correlation_id = 9;
  memory.start_ns = 1000;
  memory.end_ns = 3000;
  memory.address = 0x7f00;
  memory.bytes = 4096;
  memory.queue_id = 3;
  EXPECT_TRUE(records_->ConsumeMemory(0, memory));
  rocattach_memory bad = memory;
  bad.end_ns = 999;
  EXPECT_FALSE(records_->ConsumeMemory(0, bad));
  bad = memory;
  ++bad.plan_tag;
  EXPECT_FALSE(records_->ConsumeMemory(0, bad));
  bad = memory;
  bad.operation = 8;
  EXPECT_FALSE(records_->ConsumeMemory(0, bad));
  EXPECT_EQ(counts().memory, 1u);
  EXPECT_EQ(counts().memory_invalid, 3u);
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.memory.size(), 1u);
  const MemoryRecord& record = written.memory[0];
  EXPECT_EQ(record.session, kSession);
  EXPECT_EQ(record.operation, v1::MEMORY_OPERATION_SCRATCH_ALLOCATE);
  EXPECT_EQ(record.agent_id, kAgent);
  EXPECT_EQ(record.scratch_flags, 2);
  EXPECT_EQ(record.tid, 77u);
  EXPECT_EQ(record.correlation_id, 9u);
  EXPECT_EQ(record.begin_ns, 1000u);
  EXPECT_EQ(record.end_ns, 3000u);
  EXPECT_EQ(record.address, 0x7f00u);
  EXPECT_EQ(record.bytes, 4096u);
  EXPECT_EQ(record.queue_id, 3u);
}

TEST_F(SessionCallsTest, ArgumentsKeepTheirLinesAndAreNoMessage) {
  rocattach_api_call call = ApiCall();
  call.flags = ROCATTACH_API_TEXT_ARGUMENTS;
  strcpy(call.text, "a=1\nb=x\ty");
  EXPECT_TRUE(Consume(call));
  ASSERT_EQ(sink_->calls.size(), 1u);
  EXPECT_EQ(sink_->calls[0].text, "");
  const WrittenRecords written = Finish();
  ASSERT_EQ(written.calls.size(), 1u);
  EXPECT_EQ(written.calls[0].text, "a=1\nb=x?y");
  EXPECT_NE(written.calls[0].flags & kApiCallArguments, 0);
}

}  // namespace
}  // namespace rocattach
