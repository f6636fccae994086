// An engine with processes that exist only in the test, and filters for it.
#ifndef ROCATTACH_TESTS_UNIT_LIBRARY_ENGINE_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_LIBRARY_ENGINE_FIXTURE_H_

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/session/fake_backend.h"
#include "userspace/base/session_status.h"
#include "userspace/library/session_engine.h"
#include "userspace/session/target_runner.h"

namespace rocattach {

using S = SessionStatus;

#define EXPECT_STATUS(expected, expr)                               \
  do {                                                              \
    const absl::Status status_of_ = StatusOnly(expr);               \
    EXPECT_EQ(SessionStatusOf(status_of_), expected) << status_of_; \
  } while (false)

inline absl::Status StatusOnly(const absl::Status& status) {
  return status;
}
template <typename T>
absl::Status StatusOnly(const absl::StatusOr<T>& value) {
  return value.status();
}

inline std::shared_ptr<const CounterCatalog> Catalog() {
  static const auto* catalog = new std::shared_ptr<const CounterCatalog>(
      std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()));
  return *catalog;
}

inline FilterSpec Timestamps() {
  return {};
}

inline FilterSpec Counters(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {std::move(names)};
  return spec;
}

inline FilterSpec Api(std::vector<TraceDomain> domains) {
  FilterSpec spec;
  spec.kind = FilterKind::kApiTrace;
  spec.api_domains = std::move(domains);
  return spec;
}

inline FilterSpec Sampler(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCountersSampler;
  spec.counters = {std::move(names)};
  spec.sample_interval_ns = 1'000'000;
  return spec;
}

inline DispatchEvent Dispatch(uint64_t correlation, bool timestamps,
                              bool counters = false) {
  DispatchEvent event = {};
  event.dispatch.kind = ROCATTACH_RECORD_DISPATCH;
  event.dispatch.correlation_id = correlation;
  event.dispatch.agent_id = 1;
  event.for_timestamps = timestamps;
  event.for_counters = counters;
  return event;
}

// A record, copied out of a callback.
struct CopiedRecord {
  RecordHeader header;
  DispatchRecord profiler;
  TraceRecord tracer;
  SampleRecord sampler;
  std::vector<RecordValue> counters;
};

class SessionEngineTest : public ::testing::Test {
 protected:
  SessionEngineTest()
      : backend_(std::make_shared<FakeBackend>()),
        runner_(std::make_shared<TargetRunner>(backend_, Catalog())),
        engine_(runner_) {
    target_ = backend_->AddProcess(100, {MakeGpu(1, "GPU-a")});
    EXPECT_TRUE(engine_.Initialize().ok());
  }

  SessionId NewSession() { return *engine_.CreateSession(-1); }

  // Copies the counters that lie behind a record.
  static void CopyCounters(const void* from, CopiedRecord* seen) {
    if (seen->counters.empty()) return;
    std::memcpy(seen->counters.data(), from,
                seen->counters.size() * sizeof(seen->counters[0]));
  }

  // Steps through a delivery with NextRecord, as users do.
  BufferCallback Collect() {
    return [this](const RecordHeader* begin, const RecordHeader* end, SessionId session,
                  BufferId buffer) {
      ++callbacks_;
      size_t steps = 0;
      for (const RecordHeader* at = begin; at < end;) {
        CopiedRecord seen = {};
        seen.header = *at;
        if (at->kind == SessionRecordKind::kDispatch) {
          std::memcpy(&seen.profiler, at, sizeof(seen.profiler));
          seen.counters.resize(seen.profiler.values);
          CopyCounters(reinterpret_cast<const char*>(at) + sizeof(seen.profiler),
                       &seen);
        } else if (at->kind == SessionRecordKind::kTrace) {
          std::memcpy(&seen.tracer, at, sizeof(seen.tracer));
        } else {
          std::memcpy(&seen.sampler, at, sizeof(seen.sampler));
          seen.counters.resize(seen.sampler.values);
          CopyCounters(reinterpret_cast<const char*>(at) + sizeof(seen.sampler), &seen);
        }
        seen_.push_back(seen);
        const RecordHeader* next = nullptr;
        const absl::Status status =
            engine_.buffers().NextRecord(at, &next, session, buffer);
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
  std::shared_ptr<TargetRunner> runner_;
  ProcessId target_;
  int callbacks_ = 0;
  std::vector<CopiedRecord> seen_;
  SessionEngine engine_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_LIBRARY_ENGINE_FIXTURE_H_
