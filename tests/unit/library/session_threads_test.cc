// Many threads on one engine with random calls. The test is that they end, that nothing
// is delivered twice or lost, and that no sanitizer complains.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/await.h"
#include "tests/unit/session/fake_backend.h"
#include "userspace/base/session_status.h"
#include "userspace/library/record_buffer.h"
#include "userspace/library/session_engine.h"
#include "userspace/session/target_runner.h"

namespace rocattach {
namespace {

std::shared_ptr<const CounterCatalog> Catalog() {
  static const auto* catalog = new std::shared_ptr<const CounterCatalog>(
      std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()));
  return *catalog;
}

DispatchEvent Event(uint64_t correlation) {
  DispatchEvent event = {};
  event.dispatch.correlation_id = correlation;
  event.for_timestamps = true;
  return event;
}

TEST(SessionThreads, RecordsOfManyProcessesArriveOnceAndInOrder) {
  auto backend = std::make_shared<FakeBackend>();
  std::vector<ProcessId> targets;
  for (int i = 0; i < 4; ++i) {
    targets.push_back(
        backend->AddProcess(i + 1, {MakeGpu(1, absl::StrCat("GPU-", i))}));
  }
  std::vector<std::vector<uint64_t>> seen(5);
  SessionEngine engine(std::make_shared<TargetRunner>(backend, Catalog()));
  ASSERT_TRUE(engine.Initialize().ok());
  uint64_t last_id = 0;
  auto session = engine.CreateReadySession(
      -1, FilterSpec(), 8 * sizeof(DispatchRecord),
      [&](const RecordHeader* begin, const RecordHeader* end, SessionId s, BufferId b) {
        while (begin < end) {
          const auto* record = reinterpret_cast<const DispatchRecord*>(begin);
          EXPECT_EQ(record->header.id, ++last_id);
          seen[static_cast<size_t>(record->pid)].push_back(record->correlation_id);
          ASSERT_TRUE(engine.buffers().NextRecord(begin, &begin, s, b).ok());
        }
      },
      nullptr);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(engine.StartSession(*session).ok());
  constexpr uint64_t kEach = 2000;
  std::vector<std::thread> threads;
  for (ProcessId target : targets) {
    threads.emplace_back([&, target] {
      for (uint64_t i = 1; i <= kEach; ++i) {
        EXPECT_TRUE(backend->Dispatch(target, Event(i)));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_TRUE(engine.TerminateSession(*session).ok());
  for (int pid = 1; pid <= 4; ++pid) {
    ASSERT_EQ(seen[pid].size(), kEach);
    for (uint64_t i = 0; i < kEach; ++i) ASSERT_EQ(seen[pid][i], i + 1);
  }
  EXPECT_EQ(*engine.Dropped(*session), 0u);
}

TEST(SessionThreads, OnlyOneOfManyStartsWins) {
  auto backend = std::make_shared<FakeBackend>();
  const ProcessId target = backend->AddProcess(1, {MakeGpu(1, "GPU")});
  SessionEngine engine(std::make_shared<TargetRunner>(backend, Catalog()));
  ASSERT_TRUE(engine.Initialize().ok());
  constexpr int kThreads = 4;
  std::vector<SessionId> sessions;
  for (int i = 0; i < kThreads; ++i) {
    sessions.push_back(*engine.CreateReadySession(
        -1, FilterSpec(), 4096, [](const auto*, const auto*, SessionId, BufferId) {},
        nullptr));
    if (i % 2) {
      ASSERT_TRUE(engine.AddSessionTarget(sessions.back(), target).ok());
    }
  }
  for (int round = 0; round < 200; ++round) {
    std::atomic<int> won = 0, lost = 0;
    std::vector<std::thread> threads;
    for (SessionId session : sessions) {
      threads.emplace_back([&, session] {
        const absl::Status status = engine.StartSession(session);
        (status.ok() ? won : lost) += 1;
        if (!status.ok()) {
          EXPECT_EQ(SessionStatusOf(status), SessionStatus::kHasActiveSession)
              << status;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    ASSERT_EQ(won, 1);
    ASSERT_EQ(lost, kThreads - 1);
    for (SessionId session : sessions) engine.TerminateSession(session).IgnoreError();
  }
}

// Users, producers and callbacks that all call the engine at the same time.
class Crowd {
 public:
  Crowd() {
    for (int i = 1; i <= 3; ++i) {
      backend_->AddProcess(i, {MakeGpu(1, absl::StrCat("GPU-", i % 2))});
    }
    backend_->device_readings = {{0, 0, 1, 64, 64, 64}};
    EXPECT_TRUE(engine_.Initialize().ok());
  }

  void Run() {
    std::vector<std::thread> users, producers;
    for (pid_t pid = 1; pid <= 2; ++pid) {
      producers.emplace_back([this, pid] {
        for (uint64_t i = 1; !stop_; ++i) backend_->Dispatch({pid, 1000}, Event(i));
      });
    }
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      users.emplace_back([this, seed] { Use(seed); });
    }
    for (std::thread& thread : users) thread.join();
    stop_ = true;
    for (std::thread& thread : producers) thread.join();
    engine_.Finalize().IgnoreError();
  }

  uint64_t delivered() const { return delivered_; }
  const FakeBackend::Process& process(pid_t pid) {
    return backend_->process({pid, 1000});
  }

 private:
  // Some callbacks do the most difficult thing: they end or destroy sessions.
  void Called(const RecordHeader* begin, const RecordHeader* end, SessionId session,
              BufferId buffer) {
    delivered_ += static_cast<uint64_t>(begin < end);
    const uint64_t pick = delivered_ % 41;
    if (pick == 1) engine_.buffers().Flush(session, buffer).IgnoreError();
    if (pick == 2) engine_.TerminateSession(session).IgnoreError();
    if (pick == 3) engine_.DestroySession(session).IgnoreError();
    if (pick == 4) engine_.StartSession(session).IgnoreError();
    if (pick == 5) engine_.buffers().Destroy(session, buffer).IgnoreError();
  }

  void Use(uint32_t seed) {
    std::mt19937 random(seed);
    // The first rounds may be over before any producer has run.
    for (int i = 0; i < 1500 || (delivered_ < 50 && i < 1'000'000); ++i) {
      const SessionId session = SomeSession(random);
      const uint32_t pick = random() % 12;
      if (pick == 0) CreateSession(random);
      if (pick >= 1 && pick <= 3) engine_.StartSession(session).IgnoreError();
      if (pick == 4 || pick == 5) engine_.TerminateSession(session).IgnoreError();
      if (pick == 6) engine_.DestroySession(session).IgnoreError();
      if (pick == 7) engine_.filters().Create(session, FilterSpec()).IgnoreError();
      if (pick == 8) {
        engine_.Dropped(session).IgnoreError();
        engine_.buffers().Tick(i * 1'000'000ull);
      }
      if (pick == 9 && random() % 20 == 0) {
        engine_.Finalize().IgnoreError();
        engine_.Initialize().IgnoreError();
      }
      if (pick == 10) UseDevice();
      if (pick == 11) {
        runner_->Arrived({static_cast<pid_t>(1 + random() % 3), 1000});
      }
    }
  }

  SessionId SomeSession(std::mt19937& random) {
    std::lock_guard<std::mutex> lock(mutex_);
    return sessions_.empty() ? SessionId() : sessions_[random() % sessions_.size()];
  }

  void CreateSession(std::mt19937& random) {
    FilterSpec spec;
    if (random() % 2) {
      spec.kind = FilterKind::kCounters;
      spec.counters = {{"SQ_WAVES"}};
    }
    auto made = engine_.CreateReadySession(
        -1, spec, 1024,
        [this](const RecordHeader* begin, const RecordHeader* end, SessionId session,
               BufferId buffer) { Called(begin, end, session, buffer); },
        nullptr);
    if (!made.ok()) return;
    if (random() % 2) {
      engine_.AddSessionTarget(*made, {static_cast<pid_t>(1 + random() % 3), 1000})
          .IgnoreError();
    }
    std::lock_guard<std::mutex> lock(mutex_);
    if (sessions_.size() > 6) sessions_.erase(sessions_.begin());
    sessions_.push_back(*made);
  }

  void UseDevice() {
    auto device = engine_.devices().Create({"SQ_WAVES"}, 0);
    if (!device.ok()) return;
    engine_.devices().Start(*device).IgnoreError();
    engine_.devices().Poll(*device).IgnoreError();
    EXPECT_TRUE(engine_.devices().Destroy(*device).ok());
  }

  const std::shared_ptr<FakeBackend> backend_ = std::make_shared<FakeBackend>();
  std::mutex mutex_;
  std::vector<SessionId> sessions_;
  std::atomic<uint64_t> delivered_ = 0;
  std::atomic<bool> stop_ = false;
  const std::shared_ptr<TargetRunner> runner_ =
      std::make_shared<TargetRunner>(backend_, Catalog());
  SessionEngine engine_{runner_};
};

TEST(SessionThreads, EverythingAtOnce) {
  Crowd crowd;
  crowd.Run();
  EXPECT_GE(crowd.delivered(), 50u);
  for (pid_t pid = 1; pid <= 3; ++pid) {
    EXPECT_FALSE(crowd.process(pid).running) << pid;
    EXPECT_EQ(crowd.process(pid).starts, crowd.process(pid).stops);
  }
}

TEST(RecordBufferThreads, FlushWaitsForADeliveryUnderWay) {
  std::atomic<bool> inside = false, go = false, finished = false;
  auto buffer =
      RecordBuffer::Create(1024, [&](const RecordHeader*, const RecordHeader*) {
        inside = true;
        while (!go) std::this_thread::yield();
        finished = true;
      });
  const RecordHeader record = {SessionRecordKind::kTrace, sizeof(record), 0};
  ASSERT_TRUE(buffer->Append(&record));
  std::thread first([&] { buffer->Flush(); });
  testing_support::Await([&] { return inside.load(); }, "the delivery to begin");
  std::thread second([&] {
    buffer->Flush();
    EXPECT_TRUE(finished);
  });
  go = true;
  first.join();
  second.join();
}

TEST(RecordBufferThreads, DropsAreCountedWhenACallbackLeavesNoRoom) {
  std::shared_ptr<RecordBuffer> buffer;
  const RecordHeader record = {SessionRecordKind::kTrace, sizeof(record), 0};
  int accepted = 0;
  buffer = RecordBuffer::Create(4 * sizeof(record),
                                [&](const RecordHeader*, const RecordHeader*) {
                                  if (accepted > 0) return;
                                  for (int i = 0; i < 10; ++i)
                                    accepted += buffer->Append(&record);
                                });
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(buffer->Append(&record));
  EXPECT_EQ(accepted, 4);
  EXPECT_EQ(buffer->dropped(), 6u);
  const RecordHeader large = {SessionRecordKind::kTrace, 1 << 20, 0};
  EXPECT_FALSE(buffer->Append(&large));
  EXPECT_EQ(buffer->dropped(), 7u);
}

}  // namespace
}  // namespace rocattach
