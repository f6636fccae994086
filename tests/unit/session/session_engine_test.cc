#include "userspace/session/session_engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <functional>

#include "tests/unit/session/fake_backend.h"
#include "userspace/base/clock.h"
#include "userspace/session/session_status.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using S = SessionStatus;

#define EXPECT_STATUS(expected, expr)                               \
  do {                                                              \
    const absl::Status status_of_ = StatusOnly(expr);               \
    EXPECT_EQ(SessionStatusOf(status_of_), expected) << status_of_; \
  } while (false)

absl::Status StatusOnly(const absl::Status& status) {
  return status;
}
template <typename T>
absl::Status StatusOnly(const absl::StatusOr<T>& value) {
  return value.status();
}

std::shared_ptr<const CounterCatalog> Catalog() {
  static const auto* catalog = new std::shared_ptr<const CounterCatalog>(
      std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()));
  return *catalog;
}

FilterSpec Timestamps() {
  return {};
}

FilterSpec Counters(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {std::move(names)};
  return spec;
}

FilterSpec Api(std::vector<int> domains) {
  FilterSpec spec;
  spec.kind = FilterKind::kApiTrace;
  spec.api_domains = std::move(domains);
  return spec;
}

FilterSpec Sampler(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.counters = {std::move(names)};
  spec.sample_interval_ns = 1'000'000;
  return spec;
}

DispatchEvent Dispatch(uint64_t correlation, bool timestamps, bool counters = false) {
  DispatchEvent event = {};
  event.dispatch.kind = ROCATTACH_RECORD_DISPATCH;
  event.dispatch.correlation_id = correlation;
  event.dispatch.agent_id = 1;
  event.for_timestamps = timestamps;
  event.for_counters = counters;
  return event;
}

// A record, copied out of a callback.
struct Seen {
  rocattach_record_header_t header;
  rocattach_record_profiler_t profiler;
  rocattach_record_tracer_t tracer;
  rocattach_record_counters_sampler_t sampler;
  std::vector<rocattach_record_counter_t> counters;
};

class SessionEngineTest : public ::testing::Test {
 protected:
  SessionEngineTest()
      : backend_(std::make_shared<FakeBackend>()), engine_(backend_, Catalog()) {
    target_ = backend_->AddProcess(100, {MakeGpu(1, "GPU-a")});
    EXPECT_TRUE(engine_.Initialize().ok());
  }

  SessionId NewSession() { return *engine_.CreateSession(-1); }

  // Steps through a delivery with NextRecord, as users do.
  BufferCallback Collect() {
    return [this](const rocattach_record_header_t* begin,
                  const rocattach_record_header_t* end, SessionId session,
                  BufferId buffer) {
      ++callbacks_;
      size_t steps = 0;
      for (const rocattach_record_header_t* at = begin; at < end;) {
        Seen seen = {};
        seen.header = *at;
        if (at->kind == ROCATTACH_PROFILER_RECORD) {
          std::memcpy(&seen.profiler, at, sizeof(seen.profiler));
          seen.counters.resize(seen.profiler.counters_count);
          std::memcpy(seen.counters.data(),
                      reinterpret_cast<const char*>(at) + sizeof(seen.profiler),
                      seen.counters.size() * sizeof(seen.counters[0]));
        } else if (at->kind == ROCATTACH_TRACER_RECORD) {
          std::memcpy(&seen.tracer, at, sizeof(seen.tracer));
        } else {
          std::memcpy(&seen.sampler, at, sizeof(seen.sampler));
          seen.counters.resize(seen.sampler.num_counters);
          std::memcpy(seen.counters.data(),
                      reinterpret_cast<const char*>(at) + sizeof(seen.sampler),
                      seen.counters.size() * sizeof(seen.counters[0]));
        }
        seen_.push_back(seen);
        const rocattach_record_header_t* next = nullptr;
        const absl::Status status = engine_.NextRecord(at, &next, session, buffer);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_GT(next, at);
        ASSERT_LT(++steps, 1000000u);
        at = next;
      }
    };
  }

  SessionId Ready(const FilterSpec& spec, size_t bytes = 65536) {
    auto session = engine_.CreateReadySession(-1, spec, bytes, Collect(), nullptr);
    EXPECT_TRUE(session.ok()) << session.status();
    return session.ok() ? *session : SessionId();
  }

  std::shared_ptr<FakeBackend> backend_;
  TargetId target_;
  int callbacks_ = 0;
  std::vector<Seen> seen_;
  SessionEngine engine_;
};

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
  EXPECT_STATUS(S::kNotInitialized, engine_.CreateFilter({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.DestroyFilter({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.CreateBuffer({}, 0, nullptr));
  EXPECT_STATUS(S::kNotInitialized, engine_.SetFlushInterval({}, {}, 0));
  EXPECT_STATUS(S::kNotInitialized, engine_.DestroyBuffer({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.SetFilterBuffer({}, {}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.SetApiTraceSyncCallback({}, {}, nullptr));
  EXPECT_STATUS(S::kNotInitialized, engine_.FlushData({}, {}));
  EXPECT_STATUS(S::kNotInitialized, engine_.NextRecord(nullptr, nullptr, {}, {}));
  // Device profiling does not.
  EXPECT_STATUS(S::kInvalidArguments, engine_.CreateDeviceSession({}, 0));
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
                engine_.CreateFilter(none, Counters({"NO_SUCH_COUNTER"})));
  EXPECT_STATUS(S::kSessionNotFound, engine_.DestroyFilter(none, {}));
  EXPECT_STATUS(S::kSessionNotFound, engine_.CreateBuffer(none, 0, nullptr));
  EXPECT_STATUS(S::kSessionNotFound, engine_.SetFlushInterval(none, {}, 0));
  EXPECT_STATUS(S::kSessionNotFound, engine_.DestroyBuffer(none, {}));
  EXPECT_STATUS(S::kSessionNotFound, engine_.SetFilterBuffer(none, {}, {}));
  EXPECT_STATUS(S::kSessionNotFound,
                engine_.SetApiTraceSyncCallback(none, {}, nullptr));
  EXPECT_STATUS(S::kSessionNotFound, engine_.FlushData(none, {}));
  EXPECT_STATUS(S::kSessionNotFound, engine_.NextRecord(nullptr, nullptr, none, {}));
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
  auto buffer = engine_.CreateBuffer(session, 4096, Collect());
  EXPECT_STATUS(S::kSessionMissingFilter, engine_.StartSession(session));
  auto filter = engine_.CreateFilter(session, Timestamps());
  ASSERT_TRUE(filter.ok() && buffer.ok());
  EXPECT_STATUS(S::kSessionMissingBuffer, engine_.StartSession(session));
  EXPECT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
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

TEST_F(SessionEngineTest, FilterKindsAndData) {
  const SessionId session = NewSession();
  for (FilterKind kind :
       {FilterKind::kPcSampling, FilterKind::kThreadTrace, FilterKind::kSpm,
        static_cast<FilterKind>(0), static_cast<FilterKind>(8)}) {
    FilterSpec spec;
    spec.kind = kind;
    EXPECT_STATUS(S::kFilterNotSupported, engine_.CreateFilter(session, spec));
  }
  auto refused = [&](S expected, const FilterSpec& spec) {
    EXPECT_STATUS(expected, engine_.CreateFilter(session, spec));
  };
  refused(S::kFilterDataCorrupted, Counters({}));
  refused(S::kFilterDataCorrupted, Counters({""}));
  refused(S::kFilterDataCorrupted, Counters({"SQ WAVES"}));
  refused(S::kFilterDataCorrupted, Counters({std::string(64, 'A')}));
  refused(S::kFilterDataCorrupted, Api({}));
  FilterSpec spec = Sampler({"SQ_WAVES"});
  spec.sample_interval_ns = 0;
  refused(S::kFilterDataCorrupted, spec);
  spec = Timestamps();
  spec.selection.dispatches = {{5, 3}};
  refused(S::kFilterDataCorrupted, spec);
  spec.selection.dispatches = {{0, 3}};
  refused(S::kFilterDataCorrupted, spec);
  for (const char* pattern : {"(", "", "a**", "(?=x)", "\\1"}) {
    spec = Timestamps();
    spec.selection.kernel_include = {pattern};
    refused(S::kFilterDataCorrupted, spec);
  }
  spec = Api({ROCATTACH_ACTIVITY_DOMAIN_HSA_API});
  spec.selection.kernel_include = {"x"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Api({ROCATTACH_ACTIVITY_DOMAIN_HSA_API});
  spec.selection.hip_functions = {"hipMalloc"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Timestamps();
  spec.selection.hsa_functions = {"hsa_init"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Api({ROCATTACH_ACTIVITY_DOMAIN_HSA_API});
  spec.selection.gpus = {"gfx90a"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Timestamps();
  spec.counters = {{"SQ_WAVES"}};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Timestamps();
  spec.api_domains = {0};
  refused(S::kSessionFilterDataMismatch, spec);
  refused(S::kCounterNotFound, Counters({"SQ_WAVES", "SQ_WAVEZ"}));
  refused(S::kInvalidDomainId, Api({17}));
  refused(S::kInvalidDomainId, Api({-1}));
  refused(S::kIncorrectDomain, Api({ROCATTACH_ACTIVITY_DOMAIN_KFD_API}));
  spec = Api({ROCATTACH_ACTIVITY_DOMAIN_HSA_API});
  spec.selection.hsa_functions = {"hsa_init", "hsa_nonsense"};
  refused(S::kInvalidOperationId, spec);
  // The first failure decides: corrupted before mismatch before unknown counter.
  spec = Counters({"NO_SUCH", ""});
  spec.api_domains = {3};
  refused(S::kFilterDataCorrupted, spec);
  spec = Counters({"NO_SUCH"});
  spec.api_domains = {3};
  refused(S::kSessionFilterDataMismatch, spec);
  // One of each kind.
  EXPECT_TRUE(engine_.CreateFilter(session, Timestamps()).ok());
  refused(S::kSessionFilterDataMismatch, Timestamps());
  EXPECT_TRUE(engine_.CreateFilter(session, Counters({"SQ_WAVES"})).ok());
  EXPECT_TRUE(
      engine_.CreateFilter(session, Api({ROCATTACH_ACTIVITY_DOMAIN_HIP_API})).ok());
  EXPECT_TRUE(engine_.CreateFilter(session, Sampler({"SQ_WAVES"})).ok());
}

TEST_F(SessionEngineTest, BuffersAndTheirChecks) {
  const SessionId session = NewSession();
  EXPECT_STATUS(S::kInvalidArguments, engine_.CreateBuffer(session, 4096, nullptr));
  EXPECT_STATUS(S::kIncorrectSize, engine_.CreateBuffer(session, 0, Collect()));
  EXPECT_STATUS(S::kIncorrectSize, engine_.CreateBuffer(session, 47, Collect()));
  EXPECT_STATUS(S::kIncorrectSize,
                engine_.CreateBuffer(session, (size_t{1} << 30) + 1, Collect()));
  auto buffer = engine_.CreateBuffer(session, 64, Collect());
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const auto no_buffer = static_cast<BufferId>(1);
  const auto no_filter = static_cast<FilterId>(1);
  EXPECT_STATUS(S::kBufferNotFound,
                engine_.SetFilterBuffer(session, no_filter, no_buffer));
  EXPECT_STATUS(S::kFilterNotFound,
                engine_.SetFilterBuffer(session, no_filter, *buffer));
  auto filter = engine_.CreateFilter(session, Timestamps());
  ASSERT_TRUE(filter.ok());
  EXPECT_STATUS(S::kIncorrectSize, engine_.SetFilterBuffer(session, *filter, *buffer));
  // Growing: the new size in addition to the old one, the id stays.
  auto grown = engine_.CreateBuffer(session, 64, Collect(), *buffer);
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(*grown, *buffer);
  EXPECT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  EXPECT_STATUS(S::kBufferNotFound, engine_.SetFlushInterval(session, no_buffer, 0));
  EXPECT_STATUS(S::kIncorrectFlushInterval,
                engine_.SetFlushInterval(session, *buffer, 0));
  EXPECT_STATUS(S::kIncorrectFlushInterval,
                engine_.SetFlushInterval(session, *buffer, 86'400'001));
  EXPECT_TRUE(engine_.SetFlushInterval(session, *buffer, 1).ok());
  EXPECT_STATUS(S::kBufferNotFound, engine_.FlushData(session, no_buffer));
  EXPECT_STATUS(S::kBufferNotFound, engine_.DestroyBuffer(session, no_buffer));
  EXPECT_STATUS(S::kFilterNotFound, engine_.DestroyFilter(session, no_filter));
  EXPECT_STATUS(S::kFilterNotFound,
                engine_.SetApiTraceSyncCallback(session, no_filter, nullptr));
  EXPECT_STATUS(S::kFilterNotSupported,
                engine_.SetApiTraceSyncCallback(session, *filter, nullptr));
  EXPECT_TRUE(engine_.DestroyBuffer(session, *buffer).ok());
  EXPECT_STATUS(S::kSessionMissingBuffer, engine_.StartSession(session));
  EXPECT_STATUS(S::kBufferNotFound, engine_.DestroyBuffer(session, *buffer));
  EXPECT_TRUE(engine_.DestroyFilter(session, *filter).ok());
  EXPECT_STATUS(S::kSessionMissingFilter, engine_.StartSession(session));
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
  EXPECT_TRUE(ready(Api({0}), 4096, [](const auto&, SessionId) {}).ok());
}

TEST_F(SessionEngineTest, DeliversWhenFullFlushedAndEnded) {
  const size_t record = sizeof(rocattach_record_profiler_t);
  const SessionId session = NewSession();
  auto filter = engine_.CreateFilter(session, Timestamps());
  auto buffer = engine_.CreateBuffer(session, 4 * record, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  for (uint64_t i = 1; i <= 3; ++i) backend_->Dispatch(target_, Dispatch(i, true));
  EXPECT_EQ(callbacks_, 0);
  backend_->Dispatch(target_, Dispatch(4, true));
  EXPECT_EQ(callbacks_, 1);  // full
  EXPECT_EQ(seen_.size(), 4u);
  backend_->Dispatch(target_, Dispatch(5, true));
  EXPECT_TRUE(engine_.FlushData(session, *buffer).ok());
  EXPECT_EQ(callbacks_, 2);
  EXPECT_EQ(seen_.size(), 5u);
  EXPECT_TRUE(engine_.FlushData(session, *buffer).ok());
  EXPECT_EQ(callbacks_, 2);  // nothing to deliver
  backend_->Dispatch(target_, Dispatch(6, true));
  backend_->End(target_);  // the application finished
  EXPECT_EQ(callbacks_, 3);
  EXPECT_EQ(seen_.size(), 6u);
  // It stays active until it is terminated, whoever has ended.
  EXPECT_STATUS(S::kHasActiveSession, engine_.StartSession(session));
  EXPECT_TRUE(engine_.TerminateSession(session).ok());
  for (size_t i = 0; i < seen_.size(); ++i) {
    EXPECT_EQ(seen_[i].header.id, i + 1);
    EXPECT_EQ(seen_[i].profiler.correlation_id, i + 1);
    EXPECT_EQ(seen_[i].profiler.pid, 100);
  }
}

TEST_F(SessionEngineTest, FlushWorksOnATerminatedSession) {
  const SessionId session = NewSession();
  auto filter = engine_.CreateFilter(session, Timestamps());
  auto buffer = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_TRUE(engine_.FlushData(session, *buffer).ok());
  EXPECT_EQ(callbacks_, 0);
}

TEST_F(SessionEngineTest, FlushSaysWhenTheTargetsMemoryIsBroken) {
  const SessionId session = NewSession();
  auto filter = engine_.CreateFilter(session, Timestamps());
  auto buffer = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->process(target_).drain_error = absl::DataLossError("scribbled on");
  backend_->Dispatch(target_, Dispatch(1, true));
  EXPECT_STATUS(S::kCorruptedSessionBuffer, engine_.FlushData(session, *buffer));
  EXPECT_EQ(seen_.size(), 1u);  // what there was came all the same
}

TEST_F(SessionEngineTest, NextRecordAcceptsOnlyRecordsOfTheDelivery) {
  const SessionId session = NewSession();
  std::vector<absl::Status> inside;
  rocattach_record_header_t foreign = {ROCATTACH_PROFILER_RECORD, 16, 1};
  BufferId buffer_id = {};
  auto callback = [&](const rocattach_record_header_t* begin,
                      const rocattach_record_header_t* end, SessionId s, BufferId b) {
    const rocattach_record_header_t* next = nullptr;
    inside.push_back(engine_.NextRecord(begin, &next, s, b));
    inside.push_back(engine_.NextRecord(end, &next, s, b));
    inside.push_back(engine_.NextRecord(nullptr, &next, s, b));
    inside.push_back(engine_.NextRecord(&foreign, &next, s, b));
    inside.push_back(
        engine_.NextRecord(reinterpret_cast<const rocattach_record_header_t*>(
                               reinterpret_cast<const char*>(begin) + 4),
                           &next, s, b));
    auto* scribbled = const_cast<rocattach_record_header_t*>(begin);
    const rocattach_record_header_t before = *begin;
    for (uint32_t bytes : {0u, 8u, 17u, 0x7ffffff8u, 0xffffffffu}) {
      scribbled->bytes = bytes;
      inside.push_back(engine_.NextRecord(begin, &next, s, b));
    }
    *scribbled = before;
    scribbled->kind = 77;
    inside.push_back(engine_.NextRecord(begin, &next, s, b));
    *scribbled = before;
    inside.push_back(engine_.NextRecord(begin, &next, s, static_cast<BufferId>(5)));
    // From another thread, it is nobody's.
    std::thread([&] {
      inside.push_back(engine_.NextRecord(begin, &next, s, b));
    }).join();
  };
  auto filter = engine_.CreateFilter(session, Timestamps());
  auto buffer = engine_.CreateBuffer(session, 65536, callback);
  buffer_id = *buffer;
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  ASSERT_EQ(inside.size(), 13u);
  EXPECT_TRUE(inside[0].ok()) << inside[0];
  for (size_t i = 1; i < inside.size(); ++i) {
    EXPECT_STATUS(i == 11 ? S::kBufferNotFound : S::kRecordCorrupted, inside[i]);
  }
  const rocattach_record_header_t* next = nullptr;
  EXPECT_STATUS(S::kRecordCorrupted,
                engine_.NextRecord(&foreign, &next, session, buffer_id));
}

TEST_F(SessionEngineTest, CountersBecomeTheRequestedValues) {
  const SessionId session = Ready(
      Counters({"L2CacheHit", "SQ_WAVES", "TCC_HIT", "VALUBusy", "GRBM_GUI_ACTIVE"}));
  ASSERT_TRUE(engine_.StartSession(session).ok());
  const CompiledPlan& plan = *backend_->process(target_).plan;
  ASSERT_EQ(plan.architectures.size(), 1u);
  ASSERT_EQ(plan.architectures[0].dispatch.passes.size(), 1u);
  std::map<std::string, CounterReading> truth = {
      {"TCC_HIT", {0, 32, 75, 1, 9}},
      {"TCC_MISS", {0, 32, 25, 0, 4}},
      {"SQ_WAVES", {0, 8, 64, 8, 8}},
      {"SQ_ACTIVE_INST_VALU", {0, 8, 1040, 0, 0}},
      {"GRBM_GUI_ACTIVE", {0, 1, 20, 20, 20}}};
  std::vector<CounterReading> readings;
  for (uint16_t i = 0; i < plan.counter_names.size(); ++i) {
    auto found = truth.find(plan.counter_names[i]);
    ASSERT_NE(found, truth.end()) << plan.counter_names[i];
    readings.push_back(found->second);
    readings.back().counter = i;
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
  auto timestamps = engine_.CreateFilter(session, Timestamps());
  auto counters = engine_.CreateFilter(session, Counters({"SQ_WAVES"}));
  auto buffer = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *timestamps, *buffer).ok());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *counters, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true, true));
  backend_->Dispatch(target_, Dispatch(2, true, false));
  backend_->Dispatch(target_, Dispatch(3, false, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(seen_.size(), 3u);
  // With two buffers, each filter has its own.
  auto second = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *counters, *second).ok());
  seen_.clear();
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(seen_.size(), 2u);
}

TEST_F(SessionEngineTest, ApiCallsCopiesAndSamples) {
  int synchronous = 0;
  const SessionId session = NewSession();
  auto api = engine_.CreateFilter(session, Api({ROCATTACH_ACTIVITY_DOMAIN_HSA_API,
                                                ROCATTACH_ACTIVITY_DOMAIN_HSA_OPS}));
  auto sampler = engine_.CreateFilter(session, Sampler({"SQ_WAVES"}));
  auto buffer = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *sampler, *buffer).ok());
  EXPECT_STATUS(S::kSessionMissingBuffer, engine_.StartSession(session));
  // A synchronous callback is enough for API tracing.
  ASSERT_TRUE(engine_
                  .SetApiTraceSyncCallback(session, *api,
                                           [&](const auto& record, SessionId id) {
                                             EXPECT_EQ(id, session);
                                             EXPECT_NE(record.correlation_id, 0u);
                                             ++synchronous;
                                           })
                  .ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ApiEvent call;
  call.domain = ROCATTACH_ACTIVITY_DOMAIN_HSA_API;
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
  EXPECT_EQ(engine_.Report(session)->dropped, 0u);
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *api, *buffer).ok());
  backend_->ApiCall(target_, call);
  backend_->Copy(target_, copy);
  const CounterReading reading = {0, 1, 64, 64, 64};
  SampleEvent sample;
  sample.agent_id = 1;
  sample.readings = {&reading, 1};
  backend_->Sample(target_, sample);
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(synchronous, 3);
  ASSERT_EQ(seen_.size(), 3u);
  EXPECT_EQ(seen_[0].tracer.operation_id, 17u);
  EXPECT_EQ(seen_[0].tracer.timestamps.end, 20u);
  EXPECT_EQ(seen_[1].tracer.domain, ROCATTACH_ACTIVITY_DOMAIN_HSA_OPS);
  EXPECT_EQ(seen_[1].tracer.bytes, 4096u);
  EXPECT_EQ(seen_[2].header.kind, uint32_t{ROCATTACH_COUNTERS_SAMPLER_RECORD});
  ASSERT_EQ(seen_[2].counters.size(), 1u);
  EXPECT_EQ(seen_[2].counters[0].value, 64);
}

TEST_F(SessionEngineTest, RecordsWithoutABufferAreCounted) {
  const SessionId session = NewSession();
  auto filter = engine_.CreateFilter(session, Timestamps());
  auto buffer = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  ASSERT_TRUE(engine_.DestroyBuffer(session, *buffer).ok());
  EXPECT_EQ(seen_.size(), 1u);
  backend_->Dispatch(target_, Dispatch(2, true));
  EXPECT_EQ(engine_.Report(session)->dropped, 1u);
  auto second = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *second).ok());
  backend_->Dispatch(target_, Dispatch(3, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(seen_.size(), 2u);
}

TEST_F(SessionEngineTest, OneActiveSessionPerProcessAndManyProcesses) {
  const TargetId second = backend_->AddProcess(200, {MakeGpu(1, "GPU-b")});
  const SessionId a = Ready(Timestamps());
  const SessionId b = Ready(Timestamps());
  const SessionId all = Ready(Timestamps());
  ASSERT_TRUE(engine_.AddSessionTarget(a, target_).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(b, second).ok());
  ASSERT_TRUE(engine_.StartSession(a).ok());
  ASSERT_TRUE(engine_.StartSession(b).ok());
  EXPECT_STATUS(S::kHasActiveSession, engine_.AddSessionTarget(a, second));
  auto refused = engine_.StartSession(all);
  EXPECT_STATUS(S::kHasActiveSession, refused);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("process 100"));
  EXPECT_THAT(engine_.Report(a)->running, ElementsAre(target_));
  ASSERT_TRUE(engine_.TerminateSession(a).ok());
  ASSERT_TRUE(engine_.TerminateSession(b).ok());
  ASSERT_TRUE(engine_.StartSession(all).ok());
  EXPECT_THAT(engine_.Report(all)->running, ElementsAre(target_, second));
  EXPECT_STATUS(S::kHasActiveSession, engine_.StartSession(a));
}

TEST_F(SessionEngineTest, ProcessesThatComeLaterAreJoined) {
  const SessionId all = Ready(Timestamps());
  ASSERT_TRUE(engine_.StartSession(all).ok());
  const TargetId late = backend_->AddProcess(300, {MakeGpu(1, "GPU-a")});
  engine_.TargetArrived(late);
  EXPECT_TRUE(backend_->process(late).running);
  engine_.TargetArrived(late);  // twice does nothing
  EXPECT_EQ(backend_->process(late).starts, 1);
  backend_->Dispatch(late, Dispatch(1, true));
  ASSERT_TRUE(engine_.TerminateSession(all).ok());
  ASSERT_EQ(seen_.size(), 1u);
  EXPECT_EQ(seen_[0].profiler.pid, 300);
  engine_.TargetArrived(late);
  EXPECT_FALSE(backend_->process(late).running);
}

TEST_F(SessionEngineTest, OneSessionPerGpusCounters) {
  const TargetId same_gpu = backend_->AddProcess(200, {MakeGpu(1, "GPU-a")});
  const SessionId a = Ready(Counters({"SQ_WAVES"}));
  const SessionId b = Ready(Counters({"GRBM_COUNT"}));
  const SessionId c = Ready(Timestamps());
  ASSERT_TRUE(engine_.AddSessionTarget(a, target_).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(b, same_gpu).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(c, same_gpu).ok());
  ASSERT_TRUE(engine_.StartSession(a).ok());
  auto refused = engine_.StartSession(b);
  EXPECT_STATUS(S::kHasActiveSession, refused);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr(absl::StrCat("session ", static_cast<uint64_t>(a) &
                                                     0xffffffffff)));  // who owns it
  EXPECT_FALSE(backend_->process(same_gpu).running);
  EXPECT_TRUE(engine_.StartSession(c).ok());  // times are free
  ASSERT_TRUE(engine_.TerminateSession(c).ok());
  ASSERT_TRUE(engine_.TerminateSession(a).ok());
  EXPECT_TRUE(engine_.StartSession(b).ok());
}

TEST_F(SessionEngineTest, StartSaysWhatAProcessCannotGive) {
  backend_->process(target_).description.record_kinds =
      ROCATTACH_PLAN_RECORD_DISPATCHES;
  auto refused = engine_.StartSession(Ready(Counters({"SQ_WAVES"})));
  EXPECT_STATUS(S::kFilterNotSupported, refused);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("it is a fake"));
  EXPECT_TRUE(engine_.StartSession(Ready(Timestamps())).ok());
}

TEST_F(SessionEngineTest, StartChecksTheGpusOfTheProcess) {
  const TargetId old = backend_->AddProcess(200, {MakeGpu(1, "GPU-b", "gfx906")});
  const TargetId odd = backend_->AddProcess(300, {MakeGpu(1, "GPU-c", "gfx1100")});
  auto start = [&](FilterSpec spec, TargetId target) {
    const SessionId session = Ready(spec);
    EXPECT_TRUE(engine_.AddSessionTarget(session, target).ok());
    const absl::Status status = engine_.StartSession(session);
    EXPECT_TRUE(engine_.DestroySession(session).ok());
    return status;
  };
  EXPECT_STATUS(S::kCounterNotFound, start(Counters({"SQ_INSTS_MFMA"}), old));
  EXPECT_STATUS(S::kCounterInformationMissing, start(Counters({"SQ_WAVES"}), odd));
  FilterSpec spec = Timestamps();
  spec.selection.gpus = {"gfx942"};
  EXPECT_STATUS(S::kAgentNotFound, start(spec, target_));
  spec.selection.gpus = {"MI210"};
  EXPECT_STATUS(S::kSuccess, start(spec, target_));
  spec = Counters({"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY"});
  spec.single_pass = true;
  EXPECT_STATUS(S::kInvalidArguments, start(spec, target_));
  spec.single_pass = false;
  EXPECT_STATUS(S::kSuccess, start(spec, target_));
  EXPECT_STATUS(S::kError, start(Timestamps(), TargetId{999, 1}));  // gone
  backend_->process(target_).start_error = absl::InternalError("no");
  EXPECT_STATUS(S::kError, start(Timestamps(), target_));
}

TEST_F(SessionEngineTest, OneProcessThatCannotDoesNotKeepOthersFromIt) {
  const TargetId poor =
      backend_->AddProcess(50, {MakeGpu(1, "GPU-b")}, ROCATTACH_PLAN_RECORD_DISPATCHES);
  const SessionId all = Ready(Counters({"SQ_WAVES"}));
  ASSERT_TRUE(engine_.StartSession(all).ok());
  auto report = engine_.Report(all);
  EXPECT_THAT(report->running, ElementsAre(target_));
  ASSERT_EQ(report->refused.size(), 1u);
  EXPECT_STATUS(S::kFilterNotSupported, report->refused.at(poor));
  // Unless it was named.
  ASSERT_TRUE(engine_.TerminateSession(all).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(all, target_).ok());
  ASSERT_TRUE(engine_.AddSessionTarget(all, poor).ok());
  EXPECT_STATUS(S::kFilterNotSupported, engine_.StartSession(all));
  EXPECT_FALSE(backend_->process(target_).running);
  EXPECT_THAT(engine_.Report(all)->running, IsEmpty());
}

TEST_F(SessionEngineTest, PlanHoldsThePassesAndRotation) {
  FilterSpec spec =
      Counters({"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY", "SQ_WAVES"});
  spec.rotation_iterations = 3;
  const SessionId session = Ready(spec);
  ASSERT_TRUE(engine_.StartSession(session).ok());
  const rocattach_plan& image = *backend_->process(target_).plan->image;
  EXPECT_EQ(image.magic, ROCATTACH_PLAN_MAGIC);
  EXPECT_EQ(image.session_id, static_cast<uint64_t>(session));
  EXPECT_EQ(image.rotation, uint32_t{ROCATTACH_ROTATE_ITERATIONS});
  EXPECT_EQ(image.rotation_interval, 3u);
  ASSERT_EQ(image.architectures, 1u);
  EXPECT_STREQ(image.architecture[0].name, "gfx90a");
  ASSERT_EQ(image.architecture[0].dispatch_passes, 2u);
  std::vector<std::string> names;
  for (uint32_t pass = 0; pass < image.passes; ++pass) {
    for (uint32_t i = 0; i < image.pass[pass].counters; ++i) {
      names.push_back(
          image.counter_name[image.pass_counters[image.pass[pass].first_counter + i]]);
    }
  }
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("GRBM_COUNT", "GRBM_GUI_ACTIVE",
                                                     "GRBM_CP_BUSY", "SQ_WAVES"));
}

TEST_F(SessionEngineTest, CallbacksMayCallAnything) {
  const size_t record = sizeof(rocattach_record_profiler_t);
  const SessionId session = NewSession();
  auto filter = engine_.CreateFilter(session, Timestamps());
  BufferId buffer = {};
  std::vector<absl::Status> results;
  size_t records = 0;
  auto callback = [&](const rocattach_record_header_t* begin,
                      const rocattach_record_header_t* end, SessionId s, BufferId b) {
    records += static_cast<size_t>(reinterpret_cast<const char*>(end) -
                                   reinterpret_cast<const char*>(begin)) /
               record;
    if (results.empty()) {
      results.push_back(engine_.FlushData(s, b));
      results.push_back(engine_.StartSession(s));      // active
      results.push_back(engine_.TerminateSession(s));  // from inside its own delivery
      results.push_back(engine_.TerminateSession(s));  // not active any more
      results.push_back(engine_.StartSession(s));
      results.push_back(engine_.DestroySession(s));
      results.push_back(engine_.DestroySession(s));
    }
  };
  buffer = *engine_.CreateBuffer(session, 2 * record, callback);
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, buffer).ok());
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
  auto filter = engine_.CreateFilter(session, Timestamps());
  absl::Status destroyed = absl::UnknownError("not called");
  auto buffer = engine_.CreateBuffer(
      session, 65536,
      [&](const rocattach_record_header_t*, const rocattach_record_header_t*,
          SessionId s, BufferId) { destroyed = engine_.DestroySession(s); });
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  EXPECT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_TRUE(destroyed.ok()) << destroyed;
  EXPECT_STATUS(S::kSessionNotFound, engine_.StartSession(session));
  EXPECT_TRUE(engine_.StartSession(Ready(Timestamps())).ok());
}

TEST_F(SessionEngineTest, FlushIntervals) {
  const SessionId session = NewSession();
  auto filter = engine_.CreateFilter(session, Timestamps());
  auto buffer = engine_.CreateBuffer(session, 65536, Collect());
  ASSERT_TRUE(engine_.SetFilterBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.SetFlushInterval(session, *buffer, 60'000).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  const uint64_t now = BootNs();
  engine_.Tick(now);
  EXPECT_EQ(callbacks_, 0);
  engine_.Tick(now + 61'000'000'000ull);
  EXPECT_EQ(callbacks_, 1);
}

TEST_F(SessionEngineTest, DeviceSessions) {
  EXPECT_STATUS(S::kInvalidArguments, engine_.CreateDeviceSession({}, 0));
  EXPECT_STATUS(S::kAgentNotFound, engine_.CreateDeviceSession({"SQ_WAVES"}, 1));
  EXPECT_STATUS(S::kAgentNotFound, engine_.CreateDeviceSession({"SQ_WAVES"}, -1));
  EXPECT_STATUS(S::kCounterNotFound, engine_.CreateDeviceSession({"SQ_WAVEZ"}, 0));
  EXPECT_STATUS(S::kInvalidArguments,
                engine_.CreateDeviceSession(
                    {"GRBM_COUNT", "GRBM_GUI_ACTIVE", "GRBM_CP_BUSY"}, 0));
  auto session =
      engine_.CreateDeviceSession({"SQ_WAVES", "Wavefronts", "GRBM_COUNT"}, 0);
  ASSERT_TRUE(session.ok()) << session.status();
  const SessionId none = static_cast<SessionId>(3);
  EXPECT_STATUS(S::kSessionNotFound, engine_.StartDeviceSession(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.PollDeviceSession(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.StopDeviceSession(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.DestroyDeviceSession(none));
  EXPECT_STATUS(S::kSessionNotFound, engine_.StartSession(*session));
  EXPECT_STATUS(S::kSessionNotActive, engine_.PollDeviceSession(*session));
  EXPECT_STATUS(S::kSessionNotActive, engine_.StopDeviceSession(*session));
  ASSERT_TRUE(engine_.StartDeviceSession(*session).ok());
  EXPECT_STATUS(S::kHasActiveSession, engine_.StartDeviceSession(*session));
  // The GPU's counters are taken, for sessions of processes too.
  EXPECT_STATUS(S::kHasActiveSession,
                engine_.StartSession(Ready(Counters({"SQ_WAVES"}))));
  EXPECT_TRUE(backend_->process(target_).running);
  backend_->device_readings = {{0, 1, 64, 64, 64}};  // GRBM_COUNT is missing
  auto values = engine_.PollDeviceSession(*session);
  ASSERT_TRUE(values.ok());
  EXPECT_EQ((*values)[0], 64);
  EXPECT_EQ((*values)[1], 64);
  EXPECT_NE((*values)[2], (*values)[2]);  // not a number: never a made-up zero
  EXPECT_EQ((*engine_.PollDeviceSession(*session))[0], 128) << "since its start";
  backend_->process(target_).drain_error = absl::DataLossError("lost");
  EXPECT_STATUS(S::kError, engine_.PollDeviceSession(*session));
  backend_->process(target_).drain_error = absl::OkStatus();
  ASSERT_TRUE(engine_.StopDeviceSession(*session).ok());
  ASSERT_TRUE(engine_.StartDeviceSession(*session).ok());
  EXPECT_TRUE(engine_.DestroyDeviceSession(*session).ok());
  EXPECT_FALSE(backend_->process(target_).running);
  EXPECT_TRUE(engine_.StartSession(Ready(Counters({"SQ_WAVES"}))).ok());
}

TEST(SessionStatusTest, NamesNumbersAndWords) {
  EXPECT_EQ(SessionStatusName(-17), "SESSION_NOT_FOUND");
  EXPECT_EQ(SessionStatusName(0), "SUCCESS");
  EXPECT_EQ(SessionStatusName(1), "");
  EXPECT_EQ(SessionStatusName(-39), "");
  for (int status = kLastSessionStatus; status < 0; ++status) {
    const absl::Status error = SessionError(static_cast<SessionStatus>(status), "why");
    EXPECT_FALSE(error.ok());
    EXPECT_EQ(static_cast<int>(SessionStatusOf(error)), status);
    EXPECT_THAT(std::string(error.message()),
                HasSubstr(std::string(SessionStatusName(status))));
    EXPECT_NE(std::string(SessionStatusText(status)), "");
  }
  EXPECT_EQ(SessionStatusOf(absl::OkStatus()), SessionStatus::kSuccess);
  EXPECT_EQ(SessionStatusOf(absl::NotFoundError("x")), SessionStatus::kError);
}

}  // namespace
}  // namespace rocattach
