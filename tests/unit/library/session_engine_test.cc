// The life cycle of sessions, and the order of checks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/library/engine_fixture.h"

namespace rocattach {
namespace {

TEST_F(SessionEngineTest, EveryCallAsksForInitialize) {
  const SessionId session = NewSession();
  EXPECT_STATUS(S::kAlreadyInitialized, engine_.Initialize());
  EXPECT_TRUE(engine_.Finalize().ok());
  EXPECT_STATUS(S::kNotInitialized, engine_.Finalize());
  // Even with arguments that are wrong otherwise.
  EXPECT_STATUS(S::kNotInitialized, engine_.CreateSession(5));
  EXPECT_STATUS(S::kNotInitialized,
                engine_.CreateReadySession(5, {}, 0, nullptr, nullptr));
  EXPECT_STATUS(S::kNotInitialized, engine_.AddSessionTarget({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.StartSession({}));
  EXPECT_STATUS(S::kNotInitialized, engine_.TerminateSession({}));
  EXPECT_STATUS(S::kNotInitialized, engine_.DestroySession({}));
  EXPECT_STATUS(S::kNotInitialized, engine_.filters().Create({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.filters().Destroy({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.buffers().Create({}, 0, nullptr));
  EXPECT_STATUS(S::kNotInitialized, engine_.buffers().SetFlushInterval({}, {}, 0));
  EXPECT_STATUS(S::kNotInitialized, engine_.buffers().Destroy({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.filters().SetBuffer({}, {}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.filters().SetSyncCallback({}, {}, nullptr));
  EXPECT_STATUS(S::kNotInitialized, engine_.buffers().Flush({}, {}));
  EXPECT_STATUS(S::kNotInitialized,
                engine_.buffers().NextRecord(nullptr, nullptr, {}, {}));
  // Device profiling does not.
  EXPECT_STATUS(S::kInvalidArguments, engine_.devices().Create({}, 0));
  // Ids outlive finalize.
  EXPECT_TRUE(engine_.Initialize().ok());
  EXPECT_STATUS(S::kSessionMissingFilter, engine_.StartSession(session));
}

TEST_F(SessionEngineTest, SessionIsCheckedNext) {
  const SessionId none = static_cast<SessionId>(99);
  EXPECT_STATUS(S::kSessionNotFound, engine_.AddSessionTarget(none, {}));
  EXPECT_STATUS(S::kSessionNotFound, engine_.StartSession(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.TerminateSession(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.DestroySession(none));
  EXPECT_STATUS(S::kSessionNotFound,
                engine_.filters().Create(none, Counters({"NO_SUCH_COUNTER"})));
  EXPECT_STATUS(S::kSessionNotFound, engine_.filters().Destroy(none, {}));
  EXPECT_STATUS(S::kSessionNotFound, engine_.buffers().Create(none, 0, nullptr));
  EXPECT_STATUS(S::kSessionNotFound, engine_.buffers().SetFlushInterval(none, {}, 0));
  EXPECT_STATUS(S::kSessionNotFound, engine_.buffers().Destroy(none, {}));
  EXPECT_STATUS(S::kSessionNotFound, engine_.filters().SetBuffer(none, {}, {}));
  EXPECT_STATUS(S::kSessionNotFound,
                engine_.filters().SetSyncCallback(none, {}, nullptr));
  EXPECT_STATUS(S::kSessionNotFound, engine_.buffers().Flush(none, {}));
  EXPECT_STATUS(S::kSessionNotFound,
                engine_.buffers().NextRecord(nullptr, nullptr, none, {}));
}

TEST_F(SessionEngineTest, OnlyNoneIsAReplayMode) {
  for (int mode : {0, 1, 2, -2}) {
    EXPECT_STATUS(S::kIncorrectReplayMode, engine_.CreateSession(mode));
    EXPECT_STATUS(S::kIncorrectReplayMode,
                  engine_.CreateReadySession(mode, {}, 0, nullptr, nullptr));
  }
}

TEST_F(SessionEngineTest, StartChecksFilterBufferThenActivity) {
  const SessionId session = NewSession();
  EXPECT_STATUS(S::kSessionMissingFilter, engine_.StartSession(session));
  auto buffer = engine_.buffers().Create(session, 4096, Collect());
  EXPECT_STATUS(S::kSessionMissingFilter, engine_.StartSession(session));
  auto filter = engine_.filters().Create(session, Timestamps());
  ASSERT_TRUE(filter.ok() && buffer.ok());
  EXPECT_STATUS(S::kSessionMissingBuffer, engine_.StartSession(session));
  EXPECT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  EXPECT_TRUE(engine_.StartSession(session).ok());
  EXPECT_STATUS(S::kHasActiveSession, engine_.StartSession(session));
  const SessionId other = Ready(Timestamps());
  EXPECT_STATUS(S::kHasActiveSession, engine_.StartSession(other));
  EXPECT_STATUS(S::kSessionNotActive, engine_.TerminateSession(other));
  EXPECT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_STATUS(S::kSessionNotActive, engine_.TerminateSession(session));
  EXPECT_TRUE(engine_.StartSession(other).ok());
}

TEST_F(SessionEngineTest, RestartsAsOftenAsWanted) {
  const SessionId session = Ready(Timestamps());
  for (uint64_t i = 1; i <= 50; ++i) {
    ASSERT_TRUE(engine_.StartSession(session).ok());
    ASSERT_TRUE(backend_->Dispatch(target_, Dispatch(i, true)));
    ASSERT_TRUE(engine_.TerminateSession(session).ok());
    ASSERT_EQ(seen_.size(), i);
    EXPECT_EQ(seen_.back().profiler.correlation_id, i);
    EXPECT_EQ(seen_.back().header.id, i);
    EXPECT_FALSE(backend_->Dispatch(target_, Dispatch(i, true)));
  }
  EXPECT_EQ(backend_->process(target_).starts, 50);
  EXPECT_EQ(backend_->process(target_).stops, 50);
}

TEST_F(SessionEngineTest, DestroyingAnActiveSessionTerminatesIt) {
  const SessionId session = Ready(Timestamps());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ASSERT_TRUE(backend_->Dispatch(target_, Dispatch(1, true)));
  EXPECT_TRUE(engine_.DestroySession(session).ok());
  EXPECT_EQ(seen_.size(), 1u);  // with what it had collected
  EXPECT_FALSE(backend_->process(target_).running);
  EXPECT_STATUS(S::kSessionNotFound, engine_.DestroySession(session));
  // The process is free again.
  EXPECT_TRUE(engine_.StartSession(Ready(Timestamps())).ok());
}

TEST_F(SessionEngineTest, FinalizeTerminatesAndKeepsIds) {
  const SessionId session = Ready(Timestamps());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ASSERT_TRUE(backend_->Dispatch(target_, Dispatch(1, true)));
  EXPECT_TRUE(engine_.Finalize().ok());
  EXPECT_FALSE(backend_->process(target_).running);
  EXPECT_EQ(seen_.size(), 1u);
  EXPECT_TRUE(engine_.Initialize().ok());
  EXPECT_TRUE(engine_.StartSession(session).ok());
}

TEST_F(SessionEngineTest, ReadySessionsLeaveNothingBehindWhenTheyFail) {
  auto ready = [&](const FilterSpec& spec, size_t bytes, SyncCallback sync = nullptr) {
    return engine_.CreateReadySession(-1, spec, bytes, Collect(), std::move(sync));
  };
  EXPECT_STATUS(S::kFilterDataCorrupted, ready(Counters({}), 4096));
  EXPECT_STATUS(S::kIncorrectSize, ready(Timestamps(), 8));
  EXPECT_STATUS(S::kIncorrectSize, ready(Timestamps(), 96));
  EXPECT_STATUS(S::kFilterNotSupported,
                ready(Timestamps(), 4096, [](const auto&, SessionId) {}));
  EXPECT_TRUE(
      ready(Api({TraceDomain::kHsaApi}), 4096, [](const auto&, SessionId) {}).ok());
}

TEST_F(SessionEngineTest, CallbacksMayCallAnything) {
  const size_t record = sizeof(DispatchRecord);
  const SessionId session = NewSession();
  auto filter = engine_.filters().Create(session, Timestamps());
  BufferId buffer = {};
  std::vector<absl::Status> results;
  size_t records = 0;
  auto callback = [&](const RecordHeader* begin, const RecordHeader* end, SessionId s,
                      BufferId b) {
    records += static_cast<size_t>(reinterpret_cast<const char*>(end) -
                                   reinterpret_cast<const char*>(begin)) /
               record;
    if (results.empty()) {
      results.push_back(engine_.buffers().Flush(s, b));
      results.push_back(engine_.StartSession(s));      // active
      results.push_back(engine_.TerminateSession(s));  // from inside its own delivery
      results.push_back(engine_.TerminateSession(s));  // not active any more
      results.push_back(engine_.StartSession(s));
      results.push_back(engine_.DestroySession(s));
      results.push_back(engine_.DestroySession(s));
    }
  };
  buffer = *engine_.buffers().Create(session, 2 * record, callback);
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  backend_->Dispatch(target_, Dispatch(2, true));
  ASSERT_EQ(results.size(), 7u);
  EXPECT_STATUS(S::kSuccess, results[0]);
  EXPECT_STATUS(S::kHasActiveSession, results[1]);
  EXPECT_STATUS(S::kSuccess, results[2]);
  EXPECT_STATUS(S::kSessionNotActive, results[3]);
  EXPECT_STATUS(S::kSuccess, results[4]);
  EXPECT_STATUS(S::kSuccess, results[5]);
  EXPECT_STATUS(S::kSessionNotFound, results[6]);
  EXPECT_EQ(records, 2u);
  EXPECT_FALSE(backend_->process(target_).running);
}

TEST_F(SessionEngineTest, DestroyInsideTheCallbackOfItsTerminate) {
  const SessionId session = NewSession();
  auto filter = engine_.filters().Create(session, Timestamps());
  absl::Status destroyed = absl::UnknownError("not called");
  auto buffer = engine_.buffers().Create(
      session, 65536,
      [&](const RecordHeader*, const RecordHeader*, SessionId s, BufferId) {
        destroyed = engine_.DestroySession(s);
      });
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  EXPECT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_TRUE(destroyed.ok()) << destroyed;
  EXPECT_STATUS(S::kSessionNotFound, engine_.StartSession(session));
  EXPECT_TRUE(engine_.StartSession(Ready(Timestamps())).ok());
}

TEST_F(SessionEngineTest, DeviceSessions) {
  EXPECT_STATUS(S::kInvalidArguments, engine_.devices().Create({}, 0));
  EXPECT_STATUS(S::kAgentNotFound, engine_.devices().Create({"SQ_WAVES"}, 1));
  EXPECT_STATUS(S::kAgentNotFound, engine_.devices().Create({"SQ_WAVES"}, -1));
  EXPECT_STATUS(S::kCounterNotFound, engine_.devices().Create({"SQ_WAVEZ"}, 0));
  EXPECT_STATUS(
      S::kInvalidArguments,
      engine_.devices().Create({"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY"}, 0));
  auto session = engine_.devices().Create({"SQ_WAVES", "Wavefronts", "GRBM_COUNT"}, 0);
  ASSERT_TRUE(session.ok()) << session.status();
  const SessionId none = static_cast<SessionId>(3);
  EXPECT_STATUS(S::kSessionNotFound, engine_.devices().Start(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.devices().Poll(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.devices().Stop(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.devices().Destroy(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.StartSession(*session));
  EXPECT_STATUS(S::kSessionNotActive, engine_.devices().Poll(*session));
  EXPECT_STATUS(S::kSessionNotActive, engine_.devices().Stop(*session));
  ASSERT_TRUE(engine_.devices().Start(*session).ok());
  EXPECT_STATUS(S::kHasActiveSession, engine_.devices().Start(*session));
  // The GPU's counters are taken, for sessions of processes too.
  EXPECT_STATUS(S::kHasActiveSession,
                engine_.StartSession(Ready(Counters({"SQ_WAVES"}))));
  EXPECT_TRUE(backend_->process(target_).running);
  backend_->device_readings = {{0, 0, 1, 64, 64, 64}};  // GRBM_COUNT is missing
  auto values = engine_.devices().Poll(*session);
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0], 64);
  EXPECT_EQ((*values)[1], 64);
  EXPECT_NE((*values)[2], (*values)[2]);  // not a number: never a made-up zero
  EXPECT_EQ((*engine_.devices().Poll(*session))[0], 128) << "since its start";
  backend_->process(target_).drain_error = absl::DataLossError("lost");
  EXPECT_STATUS(S::kError, engine_.devices().Poll(*session));
  backend_->process(target_).drain_error = absl::OkStatus();
  ASSERT_TRUE(engine_.devices().Stop(*session).ok());
  ASSERT_TRUE(engine_.devices().Start(*session).ok());
  EXPECT_TRUE(engine_.devices().Destroy(*session).ok());
  EXPECT_FALSE(backend_->process(target_).running);
  EXPECT_TRUE(engine_.StartSession(Ready(Counters({"SQ_WAVES"}))).ok());
}

}  // namespace
}  // namespace rocattach
