// Filters and buffers of sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/library/engine_fixture.h"
#include "userspace/base/clock.h"

namespace rocattach {
namespace {

TEST_F(SessionEngineTest, FilterKindsAndData) {
  const SessionId session = NewSession();
  for (FilterKind kind :
       {FilterKind::kPcSampling, FilterKind::kThreadTrace, FilterKind::kSpm,
        static_cast<FilterKind>(0), static_cast<FilterKind>(8)}) {
    FilterSpec spec;
    spec.kind = kind;
    EXPECT_STATUS(S::kFilterNotSupported, engine_.filters().Create(session, spec));
  }
  auto refused = [&](S expected, const FilterSpec& spec) {
    EXPECT_STATUS(expected, engine_.filters().Create(session, spec));
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
}

TEST_F(SessionEngineTest, FilterDataGoesWithTheKind) {
  const SessionId session = NewSession();
  auto refused = [&](S expected, const FilterSpec& spec) {
    EXPECT_STATUS(expected, engine_.filters().Create(session, spec));
  };
  FilterSpec spec = Api({TraceDomain::kHsaApi});
  spec.selection.kernel_include = {"x"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Api({TraceDomain::kHsaApi});
  spec.selection.hip_functions = {"hipMalloc"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Timestamps();
  spec.selection.hsa_functions = {"hsa_init"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Api({TraceDomain::kHsaApi});
  spec.selection.gpus = {"gfx90a"};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Timestamps();
  spec.counters = {{"SQ_WAVES"}};
  refused(S::kSessionFilterDataMismatch, spec);
  spec = Timestamps();
  spec.api_domains = {TraceDomain::kHsaApi};
  refused(S::kSessionFilterDataMismatch, spec);
  refused(S::kCounterNotFound, Counters({"SQ_WAVES", "SQ_WAVEZ"}));
  refused(S::kInvalidDomainId, Api({static_cast<TraceDomain>(17)}));
  refused(S::kInvalidDomainId, Api({static_cast<TraceDomain>(-1)}));
  refused(S::kIncorrectDomain, Api({TraceDomain::kKfdApi}));
  spec = Api({TraceDomain::kHsaApi});
  spec.selection.hsa_functions = {"hsa_init", "hsa_nonsense"};
  refused(S::kInvalidOperationId, spec);
}

TEST_F(SessionEngineTest, TheFirstFailureOfAFilterDecides) {
  const SessionId session = NewSession();
  auto refused = [&](S expected, const FilterSpec& spec) {
    EXPECT_STATUS(expected, engine_.filters().Create(session, spec));
  };
  // Checks in order: corrupted data, data of another kind, unknown counter.
  FilterSpec spec = Counters({"NO_SUCH", ""});
  spec.api_domains = {TraceDomain::kHipApi};
  refused(S::kFilterDataCorrupted, spec);
  spec = Counters({"NO_SUCH"});
  spec.api_domains = {TraceDomain::kHipApi};
  refused(S::kSessionFilterDataMismatch, spec);
  // Only one filter of each kind.
  EXPECT_TRUE(engine_.filters().Create(session, Timestamps()).ok());
  refused(S::kSessionFilterDataMismatch, Timestamps());
  EXPECT_TRUE(engine_.filters().Create(session, Counters({"SQ_WAVES"})).ok());
  EXPECT_TRUE(engine_.filters().Create(session, Api({TraceDomain::kHipApi})).ok());
  EXPECT_TRUE(engine_.filters().Create(session, Sampler({"SQ_WAVES"})).ok());
}

TEST_F(SessionEngineTest, BuffersAndTheirChecks) {
  const SessionId session = NewSession();
  EXPECT_STATUS(S::kInvalidArguments, engine_.buffers().Create(session, 4096, nullptr));
  EXPECT_STATUS(S::kIncorrectSize, engine_.buffers().Create(session, 0, Collect()));
  EXPECT_STATUS(S::kIncorrectSize, engine_.buffers().Create(session, 47, Collect()));
  EXPECT_STATUS(S::kIncorrectSize,
                engine_.buffers().Create(session, (size_t{1} << 30) + 1, Collect()));
  auto buffer = engine_.buffers().Create(session, 64, Collect());
  ASSERT_TRUE(buffer.ok()) << buffer.status();
  const auto no_buffer = static_cast<BufferId>(1);
  const auto no_filter = static_cast<FilterId>(1);
  EXPECT_STATUS(S::kBufferNotFound,
                engine_.filters().SetBuffer(session, no_filter, no_buffer));
  EXPECT_STATUS(S::kFilterNotFound,
                engine_.filters().SetBuffer(session, no_filter, *buffer));
  auto filter = engine_.filters().Create(session, Timestamps());
  ASSERT_TRUE(filter.ok());
  EXPECT_STATUS(S::kIncorrectSize,
                engine_.filters().SetBuffer(session, *filter, *buffer));
  // Growing a buffer adds the new size to the old one and keeps the ID.
  auto grown = engine_.buffers().Create(session, 64, Collect(), *buffer);
  ASSERT_TRUE(grown.ok());
  EXPECT_EQ(*grown, *buffer);
  EXPECT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  EXPECT_STATUS(S::kBufferNotFound,
                engine_.buffers().SetFlushInterval(session, no_buffer, 0));
  EXPECT_STATUS(S::kIncorrectFlushInterval,
                engine_.buffers().SetFlushInterval(session, *buffer, 0));
  EXPECT_STATUS(S::kIncorrectFlushInterval,
                engine_.buffers().SetFlushInterval(session, *buffer, 86'400'001));
  EXPECT_TRUE(engine_.buffers().SetFlushInterval(session, *buffer, 1).ok());
  EXPECT_STATUS(S::kBufferNotFound, engine_.buffers().Flush(session, no_buffer));
  EXPECT_STATUS(S::kBufferNotFound, engine_.buffers().Destroy(session, no_buffer));
  EXPECT_STATUS(S::kFilterNotFound, engine_.filters().Destroy(session, no_filter));
  EXPECT_STATUS(S::kFilterNotFound,
                engine_.filters().SetSyncCallback(session, no_filter, nullptr));
  EXPECT_STATUS(S::kFilterNotSupported,
                engine_.filters().SetSyncCallback(session, *filter, nullptr));
  EXPECT_TRUE(engine_.buffers().Destroy(session, *buffer).ok());
  EXPECT_STATUS(S::kSessionMissingBuffer, engine_.StartSession(session));
  EXPECT_STATUS(S::kBufferNotFound, engine_.buffers().Destroy(session, *buffer));
  EXPECT_TRUE(engine_.filters().Destroy(session, *filter).ok());
  EXPECT_STATUS(S::kSessionMissingFilter, engine_.StartSession(session));
}

TEST_F(SessionEngineTest, DeliversWhenFullFlushedAndEnded) {
  const size_t record = sizeof(DispatchRecord);
  const SessionId session = NewSession();
  auto filter = engine_.filters().Create(session, Timestamps());
  auto buffer = engine_.buffers().Create(session, 4 * record, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  for (uint64_t i = 1; i <= 3; ++i) backend_->Dispatch(target_, Dispatch(i, true));
  EXPECT_EQ(callbacks_, 0);
  backend_->Dispatch(target_, Dispatch(4, true));
  EXPECT_EQ(callbacks_, 1);  // full
  EXPECT_EQ(seen_.size(), 4u);
  backend_->Dispatch(target_, Dispatch(5, true));
  EXPECT_TRUE(engine_.buffers().Flush(session, *buffer).ok());
  EXPECT_EQ(callbacks_, 2);
  EXPECT_EQ(seen_.size(), 5u);
  EXPECT_TRUE(engine_.buffers().Flush(session, *buffer).ok());
  EXPECT_EQ(callbacks_, 2);  // nothing to deliver
  backend_->Dispatch(target_, Dispatch(6, true));
  backend_->End(target_);  // the application finished
  EXPECT_EQ(callbacks_, 3);
  EXPECT_EQ(seen_.size(), 6u);
  // The session stays active until it is terminated, whichever process has ended.
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
  auto filter = engine_.filters().Create(session, Timestamps());
  auto buffer = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_TRUE(engine_.buffers().Flush(session, *buffer).ok());
  EXPECT_EQ(callbacks_, 0);
}

TEST_F(SessionEngineTest, FlushSaysWhenTheTargetsMemoryIsBroken) {
  const SessionId session = NewSession();
  auto filter = engine_.filters().Create(session, Timestamps());
  auto buffer = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->process(target_).drain_error = absl::DataLossError("scribbled on");
  backend_->Dispatch(target_, Dispatch(1, true));
  EXPECT_STATUS(S::kCorruptedSessionBuffer, engine_.buffers().Flush(session, *buffer));
  EXPECT_EQ(seen_.size(), 1u);  // earlier records were still delivered
}

TEST_F(SessionEngineTest, NextRecordAcceptsOnlyRecordsOfTheDelivery) {
  const SessionId session = NewSession();
  std::vector<absl::Status> inside;
  RecordHeader foreign = {SessionRecordKind::kDispatch, 16, 1};
  BufferId buffer_id = {};
  auto callback = [&](const RecordHeader* begin, const RecordHeader* end, SessionId s,
                      BufferId b) {
    const RecordHeader* next = nullptr;
    inside.push_back(engine_.buffers().NextRecord(begin, &next, s, b));
    inside.push_back(engine_.buffers().NextRecord(end, &next, s, b));
    inside.push_back(engine_.buffers().NextRecord(nullptr, &next, s, b));
    inside.push_back(engine_.buffers().NextRecord(&foreign, &next, s, b));
    inside.push_back(engine_.buffers().NextRecord(
        reinterpret_cast<const RecordHeader*>(reinterpret_cast<const char*>(begin) + 4),
        &next, s, b));
    auto* scribbled = const_cast<RecordHeader*>(begin);
    const RecordHeader before = *begin;
    for (uint32_t bytes : {0u, 8u, 17u, 0x7ffffff8u, 0xffffffffu}) {
      scribbled->bytes = bytes;
      inside.push_back(engine_.buffers().NextRecord(begin, &next, s, b));
    }
    *scribbled = before;
    scribbled->kind = static_cast<SessionRecordKind>(77);
    inside.push_back(engine_.buffers().NextRecord(begin, &next, s, b));
    *scribbled = before;
    inside.push_back(
        engine_.buffers().NextRecord(begin, &next, s, static_cast<BufferId>(5)));
    // On another thread, the record belongs to no delivery.
    std::thread([&] {
      inside.push_back(engine_.buffers().NextRecord(begin, &next, s, b));
    }).join();
  };
  auto filter = engine_.filters().Create(session, Timestamps());
  auto buffer = engine_.buffers().Create(session, 65536, callback);
  buffer_id = *buffer;
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  ASSERT_EQ(inside.size(), 13u);
  EXPECT_TRUE(inside[0].ok()) << inside[0];
  for (size_t i = 1; i < inside.size(); ++i) {
    EXPECT_STATUS(i == 11 ? S::kBufferNotFound : S::kRecordCorrupted, inside[i]);
  }
  const RecordHeader* next = nullptr;
  EXPECT_STATUS(S::kRecordCorrupted,
                engine_.buffers().NextRecord(&foreign, &next, session, buffer_id));
}

TEST_F(SessionEngineTest, FlushIntervals) {
  const SessionId session = NewSession();
  auto filter = engine_.filters().Create(session, Timestamps());
  auto buffer = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.buffers().SetFlushInterval(session, *buffer, 60'000).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  const uint64_t now = BootNs();
  engine_.buffers().Tick(now);
  EXPECT_EQ(callbacks_, 0);
  engine_.buffers().Tick(now + 61'000'000'000ull);
  EXPECT_EQ(callbacks_, 1);
}

TEST_F(SessionEngineTest, RecordsWithoutABufferAreCounted) {
  const SessionId session = NewSession();
  auto filter = engine_.filters().Create(session, Timestamps());
  auto buffer = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *buffer).ok());
  ASSERT_TRUE(engine_.StartSession(session).ok());
  backend_->Dispatch(target_, Dispatch(1, true));
  ASSERT_TRUE(engine_.buffers().Destroy(session, *buffer).ok());
  EXPECT_EQ(seen_.size(), 1u);
  backend_->Dispatch(target_, Dispatch(2, true));
  EXPECT_EQ(*engine_.Dropped(session), 1u);
  auto second = engine_.buffers().Create(session, 65536, Collect());
  ASSERT_TRUE(engine_.filters().SetBuffer(session, *filter, *second).ok());
  backend_->Dispatch(target_, Dispatch(3, true));
  ASSERT_TRUE(engine_.TerminateSession(session).ok());
  EXPECT_EQ(seen_.size(), 2u);
}

}  // namespace
}  // namespace rocattach
