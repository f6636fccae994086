// Copies are compared with those that the application has submitted, however often the
// service is switched meanwhile.
#include "userspace/collector/sdk/copy_service.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/unit/collector/hsa/gated_runtime.h"
#include "tests/unit/collector/sdk/fake_contexts.h"
#include "tests/unit/collector/test_memory.h"

namespace rocattach::collector {
namespace {

constexpr uint16_t kForTimestamps = 1, kForSession = 2;

// The SDK's buffer: copies that have completed are delivered when it is flushed.
struct FakeBuffer {
  rocattach_sdk_status context_status = ROCATTACH_SDK_STATUS_SUCCESS;
  rocattach_sdk_status tracing_status = ROCATTACH_SDK_STATUS_SUCCESS;
  rocattach_sdk_buffer_cb callback = nullptr;
  void* data = nullptr;
  std::deque<rocattach_sdk_memory_copy_record> completed;
  int flushes = 0;
};
FakeBuffer* g_buffer = nullptr;

rocattach_sdk_status CreateContext(rocattach_sdk_context_id* context) {
  context->handle = 5;
  return g_buffer->context_status;
}

rocattach_sdk_status CreateBuffer(rocattach_sdk_context_id context, size_t, size_t,
                                  int32_t, rocattach_sdk_buffer_cb callback, void* data,
                                  rocattach_sdk_buffer_id* buffer) {
  EXPECT_EQ(context.handle, 5u);
  g_buffer->callback = callback;
  g_buffer->data = data;
  buffer->handle = 6;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status ConfigureTracing(rocattach_sdk_context_id, int32_t kind,
                                      const rocattach_sdk_operation*, size_t,
                                      rocattach_sdk_buffer_id buffer) {
  EXPECT_EQ(kind, ROCATTACH_SDK_BUFFER_MEMORY_COPY);
  EXPECT_EQ(buffer.handle, 6u);
  return g_buffer->tracing_status;
}

rocattach_sdk_status FlushBuffer(rocattach_sdk_buffer_id) {
  ++g_buffer->flushes;
  while (!g_buffer->completed.empty()) {
    rocattach_sdk_record_header header = {ROCATTACH_SDK_CATEGORY_TRACING,
                                          ROCATTACH_SDK_BUFFER_MEMORY_COPY,
                                          &g_buffer->completed.front()};
    rocattach_sdk_record_header* headers[] = {&header};
    g_buffer->callback({5}, {6}, headers, 1, g_buffer->data, 0);
    g_buffer->completed.pop_front();
  }
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

class SdkCopyServiceTest : public GatedRuntime {
 protected:
  void SetUp() override {
    GatedRuntime::SetUp();
    g_buffer = &buffer_;
    auto config = SmallConfig();
    ASSERT_EQ(memory_.Create(config), 0);
    ASSERT_EQ(rings_.Init(&memory_), 0);
    UseContexts(&contexts_, &sdk_);
    sdk_.create_context = CreateContext;
    sdk_.create_buffer = CreateBuffer;
    sdk_.configure_buffer_tracing = ConfigureTracing;
    sdk_.flush_buffer = FlushBuffer;
  }
  void TearDown() override {
    rings_.Forget();
    memory_.Discard();
    GatedRuntime::TearDown();
  }

  rocattach_sdk_status Configure() {
    return service_.Configure(&sdk_, &agents_, &memory_, &rings_, &correlation_,
                              &streams_);
  }
  void Start(uint16_t flags) {
    ASSERT_EQ(Configure(), ROCATTACH_SDK_STATUS_SUCCESS);
    ASSERT_EQ(service_.Switch(flags), ROCATTACH_SDK_STATUS_SUCCESS);
    ASSERT_TRUE(service_.on());
  }
  void Submit() { ASSERT_EQ(Copy(8), HSA_STATUS_SUCCESS); }
  // Completes a copy, which the SDK delivers at the next flush.
  void Complete() {
    rocattach_sdk_memory_copy_record record = {};
    record.size = sizeof(record);
    record.start_timestamp = 1000;
    record.end_timestamp = 2000;
    record.bytes = 8;
    buffer_.completed.push_back(record);
  }
  bool Tick() {
    RingHandle ring = rings_.Mine();
    return service_.Tick(&ring);
  }
  std::vector<rocattach_copy> Recorded() const {
    return RecordsIn<rocattach_copy>(memory_, 0);
  }
  uint64_t seen() const { return memory_.ring(0)->copies_seen; }
  uint64_t dropped() { return memory_.control()->other_dropped; }

  FakeBuffer buffer_;
  FakeContexts contexts_;
  rocattach_sdk_functions sdk_ = {};
  Memory memory_;
  RingSet rings_;
  SdkAgents agents_;
  SdkStreams streams_;
  uint64_t correlation_ = 1;
  SdkCopyService service_;
};

TEST_F(SdkCopyServiceTest, WithoutAServiceThereIsNothingToSwitch) {
  EXPECT_EQ(service_.Switch(kForTimestamps), ROCATTACH_SDK_STATUS_SUCCESS);
  EXPECT_FALSE(service_.on());
  EXPECT_EQ(contexts_.starts, 0);
  EXPECT_FALSE(Tick());
}

TEST_F(SdkCopyServiceTest, AServiceThatCannotBeConfiguredIsNotSwitched) {
  buffer_.context_status = ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT;
  EXPECT_EQ(Configure(), ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT);
  buffer_.context_status = ROCATTACH_SDK_STATUS_SUCCESS;
  buffer_.tracing_status = ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT;
  EXPECT_EQ(Configure(), ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT);
  EXPECT_EQ(service_.Switch(kForTimestamps), ROCATTACH_SDK_STATUS_SUCCESS);
  EXPECT_EQ(contexts_.starts, 0);
}

TEST_F(SdkCopyServiceTest, CopiesAreCountedWhileItIsOn) {
  Submit();
  Start(kForTimestamps);
  EXPECT_EQ(contexts_.starts, 1);
  Submit();
  Submit();
  EXPECT_EQ(g_ring_gate.copies_submitted(), 2u);
  EXPECT_EQ(service_.Switch(0), ROCATTACH_SDK_STATUS_SUCCESS);
  EXPECT_FALSE(service_.on());
  EXPECT_EQ(contexts_.stops, 1);
  Submit();
  EXPECT_EQ(g_ring_gate.copies_submitted(), 2u);
}

TEST_F(SdkCopyServiceTest, AServiceThatDoesNotStartCountsNothing) {
  ASSERT_EQ(Configure(), ROCATTACH_SDK_STATUS_SUCCESS);
  contexts_.start_status = ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT;
  EXPECT_EQ(service_.Switch(kForTimestamps),
            ROCATTACH_SDK_STATUS_ERROR_EXCEEDS_HW_LIMIT);
  EXPECT_FALSE(service_.on());
  Submit();
  EXPECT_EQ(g_ring_gate.copies_submitted(), 0u);
  // The next attempt asks the SDK again.
  contexts_.start_status = ROCATTACH_SDK_STATUS_SUCCESS;
  EXPECT_EQ(service_.Switch(kForTimestamps), ROCATTACH_SDK_STATUS_SUCCESS);
  EXPECT_TRUE(service_.on());
}

TEST_F(SdkCopyServiceTest, CopiesKeepTheFlagsUnderWhichTheyHaveCompleted) {
  Start(kForTimestamps);
  Submit();
  Complete();
  EXPECT_EQ(service_.Switch(kForSession), ROCATTACH_SDK_STATUS_SUCCESS);
  EXPECT_EQ(contexts_.starts, 1) << "it goes on";
  EXPECT_EQ(contexts_.stops, 0);
  Submit();
  Complete();
  // Copies still in flight at the end keep the last flags, too.
  Submit();
  EXPECT_EQ(service_.Switch(0), ROCATTACH_SDK_STATUS_SUCCESS);
  Complete();
  service_.Flush();
  const std::vector<rocattach_copy> copies = Recorded();
  ASSERT_EQ(copies.size(), 3u);
  EXPECT_EQ(copies[0].flags, kForTimestamps);
  EXPECT_EQ(copies[1].flags, kForSession);
  EXPECT_EQ(copies[2].flags, kForSession);
}

TEST_F(SdkCopyServiceTest, TicksUntilEverythingHasArrived) {
  Start(kForTimestamps);
  EXPECT_TRUE(Tick()) << "it is on";
  Submit();
  Submit();
  Complete();
  ASSERT_EQ(service_.Switch(0), ROCATTACH_SDK_STATUS_SUCCESS);
  EXPECT_TRUE(Tick()) << "one is under way";
  EXPECT_EQ(seen(), 1u);
  Complete();
  EXPECT_FALSE(Tick());
  EXPECT_EQ(seen(), 2u);
  EXPECT_EQ(dropped(), 0u);
  const int flushes = buffer_.flushes;
  EXPECT_FALSE(Tick());
  EXPECT_EQ(buffer_.flushes, flushes) << "there is nothing to wait for";
}

TEST_F(SdkCopyServiceTest, AtExitCopiesThatHaveNotArrivedAreDropped) {
  Start(kForTimestamps);
  for (int i = 0; i < 3; ++i) Submit();
  Complete();
  service_.SettleAtExit();
  EXPECT_EQ(seen(), 3u);
  EXPECT_EQ(dropped(), 2u);
  EXPECT_EQ(Recorded().size(), 1u);
  // One arrives after all: it is neither seen twice nor dropped.
  Complete();
  service_.Flush();
  EXPECT_EQ(seen(), 3u);
  EXPECT_EQ(dropped(), 1u);
  EXPECT_EQ(Recorded().size(), 2u);
}

TEST_F(SdkCopyServiceTest, AtExitWithoutCopiesInFlightNothingIsDropped) {
  Start(kForTimestamps);
  Submit();
  Complete();
  service_.SettleAtExit();
  EXPECT_EQ(seen(), 1u);
  EXPECT_EQ(dropped(), 0u);
}

}  // namespace
}  // namespace rocattach::collector
