// API calls reported by the SDK's callbacks: who made them, and which are recorded.
#include "userspace/collector/sdk/api.h"

#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/collector/sdk/fake_sdk.h"

namespace rocattach::collector {
namespace {

constexpr int32_t kFunction = 7;

class SdkCallsTest : public SdkFixture {
 protected:
  void SetUp() override {
    SdkFixture::SetUp();
    ASSERT_EQ(rings_.Init(&memory_), 0);
    api_.Init(&plans_, &rings_);
    Start();
  }
  void TearDown() override {
    rings_.Forget();
    SdkFixture::TearDown();
  }

  // A plan that traces all functions of HSA and all markers.
  void Start() {
    auto image = std::make_unique<rocattach_plan>();
    *image = {};
    image->magic = ROCATTACH_PLAN_MAGIC;
    image->version = ROCATTACH_PLAN_VERSION;
    image->bytes = sizeof(rocattach_plan);
    image->generation = 2;
    image->record_kinds = ROCATTACH_PLAN_RECORD_API;
    for (int domain : {ROCATTACH_PLAN_API_HSA, ROCATTACH_PLAN_API_MARKER}) {
      image->api[domain].enabled = image->api[domain].all = 1;
    }
    *memory_.plan() = *image;
    PlanResult result;
    const PlanState* state = plans_.Prepare(&result);
    ASSERT_NE(state, nullptr) << result.text;
    plans_.Activate(state);
  }

  void Call(int32_t kind = ROCATTACH_SDK_CALLBACK_HSA_CORE_API,
            const void* payload = nullptr, int32_t operation = kFunction) {
    rocattach_sdk_callback_record record = {};
    record.kind = kind;
    record.operation = operation;
    record.payload = const_cast<void*>(payload);
    rocattach_sdk_user_data data = {0};
    record.phase = ROCATTACH_SDK_PHASE_ENTER;
    api_.OnCall(record, &data);
    record.phase = ROCATTACH_SDK_PHASE_EXIT;
    api_.OnCall(record, &data);
  }

  std::vector<rocattach_api_call> Calls() const {
    std::vector<rocattach_api_call> calls;
    for (uint32_t ring = 0; ring < memory_.geometry().ring_count; ++ring) {
      for (const auto& call : RecordsIn<rocattach_api_call>(memory_, ring)) {
        if (call.kind == ROCATTACH_RECORD_API) calls.push_back(call);
      }
    }
    return calls;
  }
  uint64_t Seen() const {
    uint64_t seen = 0;
    for (uint32_t ring = 0; ring < memory_.geometry().ring_count; ++ring) {
      seen += memory_.ring(ring)->api_calls_seen;
    }
    return seen;
  }

  RingSet rings_;
  SdkApi api_;
};

// Calls that the collector's worker makes, of the runtime and through the SDK, are not
// the program's: they are neither recorded nor counted.
TEST_F(SdkCallsTest, CallsOfTheCollectorsThreadAreNotTheProgramsCalls) {
  uint32_t programs = 0, ours = 0;
  Call();
  programs = rings_.Mine().tid();
  std::thread([&] {
    ours = rings_.Mine().tid();
    api_.set_own_thread(ours);
    Call();
    Call();
  }).join();
  Call();
  const std::vector<rocattach_api_call> calls = Calls();
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_NE(programs, ours);
  for (const rocattach_api_call& call : calls) {
    EXPECT_EQ(call.tid, programs);
    EXPECT_EQ(call.domain, ROCATTACH_PLAN_API_HSA);
    EXPECT_EQ(call.function, kFunction);
    EXPECT_LE(call.begin_ns, call.end_ns);
    EXPECT_NE(call.begin_ns, 0u);
  }
  EXPECT_EQ(Seen(), 2u);
}

// If a call was in progress when tracing began, only its end is seen.
TEST_F(SdkCallsTest, ACallWithoutABeginningIsLeftOut) {
  rocattach_sdk_callback_record record = {};
  record.kind = ROCATTACH_SDK_CALLBACK_HSA_CORE_API;
  record.operation = kFunction;
  record.phase = ROCATTACH_SDK_PHASE_EXIT;
  rocattach_sdk_user_data data = {0};
  api_.OnCall(record, &data);
  EXPECT_TRUE(Calls().empty());
  Call(ROCATTACH_SDK_CALLBACK_HIP_RUNTIME_API);
  EXPECT_TRUE(Calls().empty()) << "not traced";
}

// A message follows its call, up to a quarter of the ring.
TEST_F(SdkCallsTest, ALongMessageFollowsItsCall) {
  const size_t most = std::min<size_t>(
      ROCATTACH_API_MAX_TEXT_BYTES,
      memory_.geometry().ring_slots / 4 * size_t{ROCATTACH_TEXT_SLOT_BYTES});
  for (size_t length : {most, most + 1}) {
    const std::string message(length, 'm');
    rocattach_sdk_callback_marker payload = {};
    payload.size = sizeof(payload);
    payload.message = message.c_str();
    Call(ROCATTACH_SDK_CALLBACK_MARKER_CORE_API, &payload, ROCATTACH_SDK_MARKER_MARK);
    const std::vector<rocattach_api_call> calls = Calls();
    ASSERT_FALSE(calls.empty());
    const rocattach_api_call& call = calls.back();
    EXPECT_EQ(call.domain, ROCATTACH_PLAN_API_MARKER);
    EXPECT_EQ((call.flags & ROCATTACH_API_TEXT_CUT) != 0, length > most);
    EXPECT_EQ(call.text_slots,
              (most + ROCATTACH_TEXT_SLOT_BYTES - 1) / ROCATTACH_TEXT_SLOT_BYTES);
    size_t bytes = 0;
    for (const auto& text : RecordsIn<rocattach_text>(memory_, 0)) {
      if (text.kind == ROCATTACH_RECORD_TEXT) bytes += text.bytes;
    }
    EXPECT_EQ(bytes, calls.size() * most);
  }
}

}  // namespace
}  // namespace rocattach::collector
