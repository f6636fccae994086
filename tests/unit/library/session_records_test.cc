// The way from what processes deliver to the records of a session.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/library/engine_fixture.h"

namespace rocattach {
namespace {

TEST_F(SessionEngineTest, CountersBecomeTheRequestedValues) {
  const SessionId session = Ready(
      Counters({"L2CacheHit", "SQ_WAVES", "TCC_HIT", "VALUBusy", "GRBM_GUI_ACTIVE"}));
  ASSERT_TRUE(engine_.StartSession(session).ok());
  const CompiledPlan& plan = *backend_->process(target_).plan;
  ASSERT_EQ(plan.architectures.size(), 1u);
  ASSERT_EQ(plan.architectures[0].dispatch.passes.size(), 1u);
  std::map<std::string, rocattach_counter_value> truth = {
      {"TCC_HIT", {0, 0, 32, 75, 1, 9}},
      {"TCC_MISS", {0, 0, 32, 25, 0, 4}},
      {"SQ_WAVES", {0, 0, 8, 64, 8, 8}},
      {"SQ_ACTIVE_INST_VALU", {0, 0, 8, 1040, 0, 0}},
      {"GRBM_GUI_ACTIVE", {0, 0, 1, 20, 20, 20}}};
  std::vector<rocattach_counter_value> readings;
  for (size_t i = 0; i < plan.counter_names.size(); ++i) {
    auto found = truth.find(plan.counter_names[i]);
    ASSERT_NE(found, truth.end()) << plan.counter_names[i];
    readings.push_back(found->second);
    readings.back().counter = static_cast<uint16_t>(i);
  }
  DispatchEvent event = Dispatch(7, false, true);
  event.readings = readings;
  ASSERT_TRUE(backend_->Dispatch(target_, event));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  ASSERT_EQ(seen_.size(), 1u);
  std::map<uint32_t, double> values;
  for (const auto& counter : seen_[0].counters) values[counter.counter] = counter.value;
  ASSERT_EQ(values.size(), 5u);
  EXPECT_EQ(values[0], 75);
  EXPECT_EQ(values[1], 64);
  EXPECT_EQ(values[2], 75);
  EXPECT_DOUBLE_EQ(values[3], 100.0 * 1040 * 4 / (104 * 4) / 20);
  EXPECT_EQ(values[4], 20);
}

TEST_F(SessionEngineTest, OneRecordPerDispatchInASharedBuffer) {
  const SessionId session = NewSession();
  auto timestamps = engine_.filters().Create(session, Timestamps());
  auto counters = engine_.filters().Create(session, Counters({"SQ_WAVES"}));
  auto buffer = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *timestamps, *buffer).ok());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *counters, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true, true));
  backend_->Dispatch(target_, Dispatch(2, true, false));
  backend_->Dispatch(target_, Dispatch(3, false, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(seen_.size(), 3u);
  // With two buffers, each filter has its own record.
  auto second = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *counters, *second).ok());
  seen_.clear();
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(seen_.size(), 2u);
}

TEST_F(SessionEngineTest, ApiCallsCopiesAndSamples) {
  int synchronous = 0;
  const SessionId session = NewSession();
  auto api = engine_.filters().Create(
      session, Api({TraceDomain::kHsaApi, TraceDomain::kMemoryCopies}));
  auto sampler = engine_.filters().Create(session, Sampler({"SQ_WAVES"}));
  auto buffer = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *sampler, *buffer).ok());
  EXPECT_STATUS(S::kSessionMissingBuffer, engine_.StartSession(session));
  // A synchronous callback is enough for API tracing.
  ASSERT_TRUE(engine_.filters()
                  .SetSyncCallback(session, *api,
                                   [&](const auto& record, SessionId id) {
                                     EXPECT_EQ(id, session);
                                     EXPECT_NE(record.correlation_id, 0u);
                                     ++synchronous;
                                   })
                  .ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ApiEvent call;
  call.domain = TraceDomain::kHsaApi;
  call.function = 17;
  call.correlation_id = 5;
  call.begin_ns = 10;
  call.end_ns = 20;
  rocattach_copy copy = {};
  copy.correlation_id = 6;
  copy.bytes = 4096;
  copy.direction = ROCATTACH_COPY_HOST_TO_DEVICE;
  backend_->ApiCall(target_, call);
  EXPECT_EQ(synchronous, 1);
  EXPECT_EQ(*engine_.Dropped(session), 0u);
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *api, *buffer).ok());
  backend_->ApiCall(target_, call);
  backend_->Copy(target_, copy);
  const rocattach_counter_value reading = {0, 0, 1, 64, 64, 64};
  SampleEvent sample;
  sample.agent_id = 1;
  sample.readings = {&reading, 1};
  backend_->Sample(target_, sample);
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(synchronous, 3);
  ASSERT_EQ(seen_.size(), 3u);
  EXPECT_EQ(seen_[0].tracer.operation_id, 17u);
  EXPECT_EQ(seen_[0].tracer.times.end_ns, 20u);
  EXPECT_EQ(seen_[1].tracer.domain, TraceDomain::kMemoryCopies);
  EXPECT_EQ(seen_[1].tracer.bytes, 4096u);
  EXPECT_EQ(seen_[2].header.kind, SessionRecordKind::kSample);
  ASSERT_EQ(seen_[2].counters.size(), 1u);
  EXPECT_EQ(seen_[2].counters[0].value, 64);
}

}  // namespace
}  // namespace rocattach
