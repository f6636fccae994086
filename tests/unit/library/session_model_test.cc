// A million random calls. After each one the engine must return and do the same as a
// small model of the documented behaviour.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/unit/library/session_model.h"
#include "tests/unit/session/fake_backend.h"
#include "userspace/base/session_status.h"
#include "userspace/library/session_engine.h"
#include "userspace/session/target_runner.h"

namespace rocattach {
namespace {

// Makes the same calls to the engine and to the model.
class Duel {
 public:
  explicit Duel(uint32_t seed)
      : random_(seed),
        backend_(std::make_shared<FakeBackend>()),
        runner_(std::make_shared<TargetRunner>(
            backend_, std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()))),
        engine_(runner_) {}

  void Step(int number) {
    step_ = number;
    const int pick = static_cast<int>(Pick(40));
    // Calls in 40, cumulative: recording is the most frequent one.
    static constexpr struct {
      int until;
      void (Duel::*call)();
    } kCalls[] = {{1, &Duel::SometimesInitialize},
                  {2, &Duel::SometimesFinalize},
                  {3, &Duel::CreateSession},
                  {4, &Duel::DestroySession},
                  {6, &Duel::AddTarget},
                  {10, &Duel::Start},
                  {12, &Duel::Terminate},
                  {15, &Duel::CreateFilter},
                  {16, &Duel::DestroyFilter},
                  {19, &Duel::CreateBuffer},
                  {20, &Duel::DestroyBuffer},
                  {24, &Duel::SetFilterBuffer},
                  {25, &Duel::SetSync},
                  {26, &Duel::Flush},
                  {27, &Duel::NextRecord},
                  {28, &Duel::SetInterval},
                  {29, &Duel::ProcessBegins},
                  {30, &Duel::ProcessEnds},
                  {40, &Duel::Record}};
    for (const auto& entry : kCalls) {
      if (pick >= entry.until) continue;
      (this->*entry.call)();
      break;
    }
    ASSERT_EQ(sync_calls_.size(), model_.sync_calls.size()) << "step " << step_;
    if (number % 4096 == 0) CompareAll();
  }

  void CompareAll() {
    ASSERT_EQ(sync_calls_, model_.sync_calls);
    for (const auto& [id, session] : model_.sessions) {
      for (const auto& [buffer_id, buffer] : session.buffers) {
        ASSERT_EQ(delivered_[buffer_id], buffer.delivered) << "step " << step_;
      }
      if (!model_.initialized) continue;
      ASSERT_EQ(engine_.CheckActive(static_cast<SessionId>(id)).ok(), session.active)
          << "step " << step_;
    }
    for (const auto& [pid, process] : model_.processes) {
      ASSERT_EQ(backend_->process({pid, 1000}).running,
                model_.RecordingSession(pid) != nullptr)
          << "step " << step_;
    }
  }

  std::map<S, int> statuses;  // number of calls by status
  int calls() const { return calls_; }

 private:
  uint32_t Pick(uint32_t n) { return random_() % n; }

  void Same(S expected, const absl::Status& status, const char* what) {
    ++statuses[expected];
    ++calls_;
    ASSERT_EQ(SessionStatusOf(status), expected)
        << "step " << step_ << ", " << what << ": " << status;
  }

  // Mostly an ID that exists; sometimes one of a destroyed or invented session.
  uint64_t SomeSession() {
    if (Pick(50) == 0 || all_sessions_.empty()) return Pick(3);
    if (Pick(50) == 0) return all_sessions_[Pick(all_sessions_.size())];
    if (model_.sessions.empty()) return 7;
    auto it = model_.sessions.begin();
    std::advance(it, Pick(static_cast<uint32_t>(model_.sessions.size())));
    return it->first;
  }
  template <typename T>
  uint64_t SomeOf(const std::map<uint64_t, T>& things) {
    if (things.empty() || Pick(25) == 0) return Pick(2) ? 0 : 12345;
    auto it = things.begin();
    std::advance(it, Pick(static_cast<uint32_t>(things.size())));
    return it->first;
  }
  uint64_t SomeFilter(uint64_t session) {
    auto found = model_.sessions.find(session);
    return found == model_.sessions.end() ? 1 : SomeOf(found->second.filters);
  }
  uint64_t SomeBuffer(uint64_t session) {
    auto found = model_.sessions.find(session);
    return found == model_.sessions.end() ? 1 : SomeOf(found->second.buffers);
  }

  BufferCallback Collect() {
    return [this](const RecordHeader* begin, const RecordHeader* end, SessionId session,
                  BufferId buffer) {
      std::vector<uint64_t>& list = delivered_[static_cast<uint64_t>(buffer)];
      while (begin < end) {
        if (begin->kind == SessionRecordKind::kDispatch) {
          list.push_back(
              reinterpret_cast<const DispatchRecord*>(begin)->correlation_id);
        } else {
          list.push_back(reinterpret_cast<const TraceRecord*>(begin)->correlation_id);
        }
        const RecordHeader* next = nullptr;
        ASSERT_TRUE(engine_.buffers().NextRecord(begin, &next, session, buffer).ok());
        begin = next;
      }
    };
  }

  void Initialize() {
    const S expected = model_.initialized ? S::kAlreadyInitialized : S::kSuccess;
    Same(expected, engine_.Initialize(), "initialize");
    model_.initialized = true;
  }

  void Finalize() {
    const S expected = model_.initialized ? S::kSuccess : S::kNotInitialized;
    Same(expected, engine_.Finalize(), "finalize");
    if (!model_.initialized) return;
    for (auto& [id, session] : model_.sessions) {
      if (session.active) model_.Stop(session);
    }
    model_.initialized = false;
  }

  void SometimesInitialize() {
    if (Pick(40) == 0) Initialize();
  }

  void SometimesFinalize() {
    if (Pick(200) == 0) Finalize();
    if (!model_.initialized && Pick(3) == 0) Initialize();
  }

  void CreateSession() {
    if (model_.sessions.size() >= 6) return;
    const int mode = Pick(10) == 0 ? static_cast<int>(Pick(3)) : -1;
    auto id = engine_.CreateSession(mode);
    S expected = model_.initialized ? S::kSuccess : S::kNotInitialized;
    if (model_.initialized && mode != -1) expected = S::kIncorrectReplayMode;
    Same(expected, id.status(), "create_session");
    if (!id.ok()) return;
    all_sessions_.push_back(static_cast<uint64_t>(*id));
    ASSERT_TRUE(model_.sessions.try_emplace(all_sessions_.back()).second)
        << "id reused";
  }

  void DestroySession() {
    if (Pick(6) != 0) return;
    const uint64_t id = SomeSession();
    ModelSession* session = nullptr;
    const S expected = model_.Find(id, &session);
    Same(expected, engine_.DestroySession(static_cast<SessionId>(id)),
         "destroy_session");
    if (expected != S::kSuccess) return;
    model_.Stop(*session);
    for (const auto& [buffer_id, buffer] : session->buffers) {
      ASSERT_EQ(delivered_[buffer_id], buffer.delivered) << "step " << step_;
      delivered_.erase(buffer_id);
    }
    model_.sessions.erase(id);
  }

  void AddTarget() {
    const uint64_t id = SomeSession();
    const pid_t pid = static_cast<pid_t>(1 + Pick(4));
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    // Enough sessions must remain sessions for all processes.
    if (expected == S::kSuccess && session->targets.empty() && id % 3 == 0) return;
    if (expected == S::kSuccess && session->active) expected = S::kHasActiveSession;
    Same(expected, engine_.AddSessionTarget(static_cast<SessionId>(id), {pid, 1000}),
         "add_session_process");
    if (expected == S::kSuccess) session->targets.insert(pid);
  }

  void Start() {
    const uint64_t id = SomeSession();
    const S expected = model_.Start(id);
    Same(expected, engine_.StartSession(static_cast<SessionId>(id)), "start_session");
  }

  void Terminate() {
    const uint64_t id = SomeSession();
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess && !session->active) expected = S::kSessionNotActive;
    Same(expected, engine_.TerminateSession(static_cast<SessionId>(id)),
         "terminate_session");
    if (expected == S::kSuccess) model_.Stop(*session);
  }

  void CreateFilter() {
    const uint64_t id = SomeSession();
    const Kind kinds[] = {kTimes, kCounts, kApi, kTimes, kCounts, kApi, kUnsupported};
    const Kind kind = kinds[Pick(7)];
    FilterSpec spec;
    spec.kind = static_cast<FilterKind>(kind);
    if (kind == kCounts) spec.counters = {{"SQ_WAVES", "GRBM_COUNT"}};
    if (kind == kApi) spec.api_domains = {TraceDomain::kHsaApi};
    const bool corrupt = Pick(12) == 0;
    if (corrupt) spec.selection.dispatches = {{9, 3}};
    const bool mismatch = Pick(12) == 0;
    if (mismatch && kind != kApi) spec.api_domains = {TraceDomain::kHsaApi};
    if (mismatch && kind == kApi) spec.selection.gpus = {"gfx90a"};
    const bool bad_domain = kind == kApi && Pick(12) == 0;
    if (bad_domain) spec.api_domains = {TraceDomain::kKfdApi};
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess) {
      if (kind == kUnsupported) {
        expected = S::kFilterNotSupported;
      } else if (corrupt) {
        expected = S::kFilterDataCorrupted;
      } else if (bad_domain && !mismatch) {
        expected = S::kIncorrectDomain;
      } else if (mismatch || model_.FilterOf(*session, kind) != nullptr) {
        expected = S::kSessionFilterDataMismatch;
      }
    }
    auto filter = engine_.filters().Create(static_cast<SessionId>(id), spec);
    Same(expected, filter.status(), "create_filter");
    if (filter.ok()) session->filters[static_cast<uint64_t>(*filter)].kind = kind;
  }

  void DestroyFilter() {
    const uint64_t id = SomeSession(), filter = SomeFilter(id);
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess && !session->filters.count(filter)) {
      expected = S::kFilterNotFound;
    }
    Same(expected,
         engine_.filters().Destroy(static_cast<SessionId>(id),
                                   static_cast<FilterId>(filter)),
         "destroy_filter");
    if (expected == S::kSuccess) session->filters.erase(filter);
  }

  void CreateBuffer() {
    const uint64_t id = SomeSession();
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess && session->buffers.size() >= 4) return;
    const size_t smallest = sizeof(SampleRecord);
    const size_t sizes[] = {8,           smallest,         kTracer,     kRecord,
                            3 * kRecord, 10 * kRecord + 4, 2 * kTracer, 64 * kRecord};
    const size_t bytes = sizes[Pick(8)];
    const uint64_t existing = Pick(4) == 0 ? SomeBuffer(id) : 0;
    if (expected == S::kSuccess && bytes < smallest) expected = S::kIncorrectSize;
    auto buffer = engine_.buffers().Create(static_cast<SessionId>(id), bytes, Collect(),
                                           static_cast<BufferId>(existing));
    Same(expected, buffer.status(), "create_buffer");
    if (!buffer.ok()) return;
    const uint64_t buffer_id = static_cast<uint64_t>(*buffer);
    auto [entry, added] = session->buffers.try_emplace(buffer_id);
    ASSERT_EQ(!added, buffer_id == existing);
    if (!added) model_.Deliver(entry->second);
    entry->second.capacity += bytes / 8 * 8;
  }

  void DestroyBuffer() {
    const uint64_t id = SomeSession(), buffer = SomeBuffer(id);
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess && !session->buffers.count(buffer)) {
      expected = S::kBufferNotFound;
    }
    Same(expected,
         engine_.buffers().Destroy(static_cast<SessionId>(id),
                                   static_cast<BufferId>(buffer)),
         "destroy_buffer");
    if (expected != S::kSuccess) return;
    model_.Deliver(session->buffers.at(buffer));
    ASSERT_EQ(delivered_[buffer], session->buffers.at(buffer).delivered);
    delivered_.erase(buffer);
    session->buffers.erase(buffer);
    for (auto& [filter_id, filter] : session->filters) {
      if (filter.buffer == buffer) filter.buffer = 0;
    }
  }

  void SetFilterBuffer() {
    const uint64_t id = SomeSession(), filter = SomeFilter(id), buffer = SomeBuffer(id);
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess) {
      if (!session->buffers.count(buffer)) {
        expected = S::kBufferNotFound;
      } else if (!session->filters.count(filter)) {
        expected = S::kFilterNotFound;
      } else {
        const Kind kind = session->filters.at(filter).kind;
        const size_t need =
            kind == kApi ? kTracer : kRecord + (kind == kCounts ? 2 * kValue : 0);
        if (session->buffers.at(buffer).capacity < need) expected = S::kIncorrectSize;
      }
    }
    Same(expected,
         engine_.filters().SetBuffer(static_cast<SessionId>(id),
                                     static_cast<FilterId>(filter),
                                     static_cast<BufferId>(buffer)),
         "set_filter_buffer");
    if (expected == S::kSuccess) session->filters.at(filter).buffer = buffer;
  }

  void SetSync() {
    const uint64_t id = SomeSession(), filter = SomeFilter(id);
    const bool set = Pick(2) == 0;
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess) {
      if (!session->filters.count(filter)) {
        expected = S::kFilterNotFound;
      } else if (session->filters.at(filter).kind != kApi) {
        expected = S::kFilterNotSupported;
      }
    }
    SyncCallback callback;
    if (set) {
      callback = [this](const TraceRecord& record, SessionId) {
        sync_calls_.push_back(record.correlation_id);
      };
    }
    Same(expected,
         engine_.filters().SetSyncCallback(static_cast<SessionId>(id),
                                           static_cast<FilterId>(filter), callback),
         "set_api_trace_sync_callback");
    if (expected == S::kSuccess) session->filters.at(filter).sync = set;
  }

  void Flush() {
    const uint64_t id = SomeSession(), buffer = SomeBuffer(id);
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess && !session->buffers.count(buffer)) {
      expected = S::kBufferNotFound;
    }
    Same(expected,
         engine_.buffers().Flush(static_cast<SessionId>(id),
                                 static_cast<BufferId>(buffer)),
         "flush_data");
    if (expected == S::kSuccess) model_.Deliver(session->buffers.at(buffer));
  }

  void NextRecord() {
    const uint64_t id = SomeSession(), buffer = SomeBuffer(id);
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess) {
      expected =
          session->buffers.count(buffer) ? S::kRecordCorrupted : S::kBufferNotFound;
    }
    const RecordHeader stray = {SessionRecordKind::kTrace, kTracer, 1};
    const RecordHeader* next = nullptr;
    Same(expected,
         engine_.buffers().NextRecord(&stray, &next, static_cast<SessionId>(id),
                                      static_cast<BufferId>(buffer)),
         "next_record");
  }

  void SetInterval() {
    const uint64_t id = SomeSession(), buffer = SomeBuffer(id);
    const uint64_t interval = Pick(3) == 0 ? 0 : 1 + Pick(1000);
    ModelSession* session = nullptr;
    S expected = model_.Find(id, &session);
    if (expected == S::kSuccess) {
      if (!session->buffers.count(buffer)) {
        expected = S::kBufferNotFound;
      } else if (interval == 0) {
        expected = S::kIncorrectFlushInterval;
      }
    }
    Same(expected,
         engine_.buffers().SetFlushInterval(static_cast<SessionId>(id),
                                            static_cast<BufferId>(buffer), interval),
         "set_buffer_properties");
  }

  void ProcessBegins() {
    const pid_t pid = static_cast<pid_t>(1 + Pick(4));
    if (model_.processes.count(pid)) return;
    ModelProcess process;
    process.gpu = static_cast<int>(Pick(3));
    process.counts = Pick(4) != 0;
    model_.processes[pid] = process;
    const ProcessId target = backend_->AddProcess(
        pid, {MakeGpu(1, absl::StrCat("GPU-", process.gpu))},
        process.counts ? kEverything
                       : kEverything & ~uint32_t{ROCATTACH_PLAN_RECORD_COUNTERS});
    model_.Arrive(pid);
    runner_->Arrived(target);
  }

  void ProcessEnds() {
    if (Pick(3) != 0) return;
    const pid_t pid = static_cast<pid_t>(1 + Pick(4));
    if (!model_.processes.count(pid)) return;
    model_.End(pid);
    backend_->End({pid, 1000});
  }

  void Record() {
    const pid_t pid = static_cast<pid_t>(1 + Pick(4));
    const ProcessId target = {pid, 1000};
    ModelSession* session = model_.RecordingSession(pid);
    if (session == nullptr) return;
    ++correlation_;
    if (Pick(3) == 0) {
      if (!session->plan.count(kApi)) return;
      ApiEvent event;
      event.correlation_id = correlation_;
      ASSERT_TRUE(backend_->ApiCall(target, event)) << "step " << step_;
      model_.ApiCall(pid, correlation_);
    } else {
      DispatchEvent event = {};
      event.dispatch.correlation_id = correlation_;
      event.dispatch.agent_id = 1;
      event.for_timestamps = session->plan.count(kTimes) != 0;
      event.for_counters = session->plan.count(kCounts) != 0;
      if (!event.for_timestamps && !event.for_counters) return;
      ASSERT_TRUE(backend_->Dispatch(target, event)) << "step " << step_;
      model_.Dispatch(pid, correlation_);
    }
  }

  std::mt19937 random_;
  std::shared_ptr<FakeBackend> backend_;
  std::shared_ptr<TargetRunner> runner_;
  Model model_;
  int step_ = 0;
  int calls_ = 0;
  uint64_t correlation_ = 0;
  std::vector<uint64_t> all_sessions_;
  std::map<uint64_t, std::vector<uint64_t>> delivered_;
  std::vector<uint64_t> sync_calls_;
  SessionEngine engine_;  // last: its destructor still delivers
};

TEST(SessionModel, AMillionRandomCallsGoAsDocumented) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "all calls are on one thread";
#endif
  constexpr uint32_t kSeeds = 4;
  constexpr int kCalls = 250'000;
  std::map<S, int> statuses;
  for (uint32_t seed = 1; seed <= kSeeds; ++seed) {
    Duel duel(seed);
    for (int step = 0; duel.calls() < kCalls; ++step) {
      duel.Step(step);
      if (HasFatalFailure()) FAIL() << "seed " << seed;
    }
    duel.CompareAll();
    for (const auto& [status, count] : duel.statuses) statuses[status] += count;
  }
  // The random calls have reached every status.
  for (S status :
       {S::kSuccess, S::kAlreadyInitialized, S::kNotInitialized, S::kSessionNotFound,
        S::kSessionMissingFilter, S::kSessionMissingBuffer, S::kHasActiveSession,
        S::kSessionNotActive, S::kFilterNotFound, S::kBufferNotFound,
        S::kFilterNotSupported, S::kFilterDataCorrupted, S::kSessionFilterDataMismatch,
        S::kIncorrectDomain, S::kIncorrectSize, S::kIncorrectReplayMode,
        S::kIncorrectFlushInterval, S::kRecordCorrupted, S::kError}) {
    EXPECT_GE(statuses[status], 100) << SessionStatusName(static_cast<int>(status));
  }
}

}  // namespace
}  // namespace rocattach
