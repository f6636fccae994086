// HIP streams, as announced by the SDK for threads and for copies.
#include "userspace/collector/sdk/streams.h"

#include <gtest/gtest.h>

#include <thread>

#include "userspace/abi/hip_stream.h"

namespace rocattach::collector {
namespace {

struct Configured {
  int32_t kind = 0;
  rocattach_sdk_context_id copies = {0};
  rocattach_sdk_correlation_cb request = nullptr;
  void* data = nullptr;
};
Configured g_configured;

rocattach_sdk_status ConfigureTracing(rocattach_sdk_context_id, int32_t kind,
                                      const rocattach_sdk_operation*, size_t,
                                      rocattach_sdk_callback_tracing_cb, void*) {
  g_configured.kind = kind;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

rocattach_sdk_status ConfigureCorrelation(rocattach_sdk_context_id context,
                                          const int32_t* kinds, size_t count,
                                          rocattach_sdk_correlation_cb callback,
                                          void* data) {
  EXPECT_EQ(count, 1u);
  EXPECT_EQ(kinds[0], ROCATTACH_SDK_REQUEST_MEMORY_COPY);
  g_configured.copies = context;
  g_configured.request = callback;
  g_configured.data = data;
  return ROCATTACH_SDK_STATUS_SUCCESS;
}

class SdkStreamsTest : public testing::Test {
 protected:
  void SetUp() override {
    g_configured = Configured();
    sdk_.configure_callback_tracing = ConfigureTracing;
    sdk_.configure_correlation = ConfigureCorrelation;
  }

  bool Configure(uint32_t version = SdkStreams::kOldestVersion) {
    return streams_.Configure(sdk_, version, {1}, {2}, nullptr, nullptr);
  }

  void Set(int32_t phase, uint64_t stream, rocattach_sdk_user_data* data) {
    rocattach_sdk_callback_hip_stream payload = {sizeof(payload), stream, {}};
    rocattach_sdk_callback_record record = {};
    record.kind = ROCATTACH_SDK_CALLBACK_HIP_STREAM;
    record.operation = ROCATTACH_SDK_HIP_STREAM_SET;
    record.phase = phase;
    record.payload = &payload;
    streams_.OnCallback(record, data);
  }

  // The stream in the record of a copy that is submitted now.
  uint32_t OfCopy() {
    rocattach_sdk_async_correlation_id id = {};
    EXPECT_EQ(g_configured.request(1, {2}, ROCATTACH_SDK_REQUEST_MEMORY_COPY, 2, 3,
                                   &id.external, g_configured.data),
              0);
    return streams_.OfCopy(id);
  }

  rocattach_sdk_functions sdk_ = {};
  SdkStreams streams_;
};

TEST_F(SdkStreamsTest, TheInnermostCallOfAThreadDeterminesItsStream) {
  ASSERT_TRUE(Configure());
  EXPECT_EQ(g_configured.kind, ROCATTACH_SDK_CALLBACK_HIP_STREAM);
  EXPECT_EQ(streams_.Current(), 0u);
  EXPECT_EQ(OfCopy(), 0u);
  rocattach_sdk_user_data outer = {}, inner = {};
  Set(ROCATTACH_SDK_PHASE_ENTER, 7, &outer);
  EXPECT_EQ(streams_.Current(), 8u);
  Set(ROCATTACH_SDK_PHASE_ENTER, 0, &inner);
  EXPECT_EQ(streams_.Current(), 1u) << "the default stream is known";
  EXPECT_EQ(OfCopy(), 1u);
  std::thread([this] { EXPECT_EQ(streams_.Current(), 0u); }).join();
  Set(ROCATTACH_SDK_PHASE_EXIT, 0, &inner);
  EXPECT_EQ(OfCopy(), 8u);
  Set(ROCATTACH_SDK_PHASE_EXIT, 7, &outer);
  EXPECT_EQ(streams_.Current(), 0u);
}

TEST_F(SdkStreamsTest, AnSdkThatEndsProgramsIsNotAsked) {
  EXPECT_FALSE(Configure(10099));
  EXPECT_EQ(g_configured.kind, 0);
  EXPECT_EQ(g_configured.request, nullptr);
  EXPECT_EQ(streams_.Current(), 0u);
  rocattach_sdk_async_correlation_id id = {};
  id.external.value = 5;  // another tool's
  EXPECT_EQ(streams_.OfCopy(id), 0u);
}

TEST_F(SdkStreamsTest, NumbersThatDoNotFitAreNotKnown) {
  ASSERT_TRUE(Configure());
  rocattach_sdk_user_data data = {};
  Set(ROCATTACH_SDK_PHASE_ENTER, UINT32_MAX, &data);
  EXPECT_EQ(streams_.Current(), 0u);
  Set(ROCATTACH_SDK_PHASE_ENTER, UINT32_MAX - 1, &data);
  EXPECT_EQ(streams_.Current(), UINT32_MAX);
  EXPECT_EQ(OfCopy(), UINT32_MAX);
  Set(ROCATTACH_SDK_PHASE_EXIT, 0, &data);
}

TEST_F(SdkStreamsTest, WithoutTheRequestOnlyCopiesAreWithoutAStream) {
  sdk_.configure_correlation = nullptr;
  ASSERT_TRUE(Configure());
  rocattach_sdk_user_data data = {};
  Set(ROCATTACH_SDK_PHASE_ENTER, 3, &data);
  EXPECT_EQ(streams_.Current(), 4u);
  rocattach_sdk_async_correlation_id id = {};
  id.external.value = 4;
  EXPECT_EQ(streams_.OfCopy(id), 0u);
  Set(ROCATTACH_SDK_PHASE_EXIT, 3, &data);
}

TEST(HipStream, SharesTheFieldOfThePacket) {
  rocattach_dispatch r = {};
  r.packet_index = 41;
  EXPECT_EQ(HipStreamIn(r), 0u);
  EXPECT_EQ(PacketNumber(r), 41u);
  r.packet_index = PacketIndexOf(1);
  EXPECT_EQ(HipStreamIn(r), 1u);
  EXPECT_EQ(HipStreamId(r), 0u) << "the default stream";
  EXPECT_EQ(PacketNumber(r), 0u);
  EXPECT_EQ(PacketIndexOf(0), 0u);
  // Values that a target may have written there instead.
  EXPECT_TRUE(IsPacketIndex(uint64_t{1} << 62));
  EXPECT_TRUE(IsPacketIndex(PacketIndexOf(UINT32_MAX)));
  EXPECT_FALSE(IsPacketIndex(kHipStreamTag));
  EXPECT_FALSE(IsPacketIndex(kHipStreamTag | uint64_t{1} << 40 | 3));
}

}  // namespace
}  // namespace rocattach::collector
