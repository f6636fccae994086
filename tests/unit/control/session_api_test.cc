// What goes over the wire between a program's sessions and the service; the whole way
// with real processes is tests/integration/library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/temporary_directory.h"
#include "tests/unit/control/service_on_socket.h"
#include "userspace/base/session_status.h"
#include "userspace/control/remote_runner.h"
#include "userspace/control/run_queue.h"
#include "userspace/control/session_wire.h"
#include "userspace/session/session_engine.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;
using S = SessionStatus;

TEST(SessionWireTest, EveryStatusKeepsItsNumberAndItsWords) {
  EXPECT_TRUE(FromGrpc(ToGrpc(absl::OkStatus())).ok());
  for (int number = kLastSessionStatus; number < 0; ++number) {
    const absl::Status status = SessionError(static_cast<S>(number), "why");
    const absl::Status back = FromGrpc(ToGrpc(status));
    EXPECT_EQ(static_cast<int>(SessionStatusOf(back)), number);
    EXPECT_EQ(back.message(), status.message()) << "and the name once";
  }
  const absl::Status other = FromGrpc(ToGrpc(absl::NotFoundError("nobody")));
  EXPECT_EQ(SessionStatusOf(other), S::kError);
  EXPECT_THAT(std::string(other.message()), HasSubstr("nobody"));
  const absl::Status gone = FromGrpc({grpc::StatusCode::UNAVAILABLE, "GOAWAY"});
  EXPECT_THAT(std::string(gone.message()), HasSubstr("closed the connection"));
}

std::vector<TraceRecord> Calls(size_t count) {
  TraceRecord call = {};
  call.header.kind = SessionRecordKind::kTrace;
  call.header.bytes = sizeof(call);
  return std::vector<TraceRecord>(count, call);
}

void Push(RunQueue* queue, const std::vector<TraceRecord>& calls) {
  queue->PushRecords(&calls.data()->header, &(calls.data() + calls.size())->header);
}

TEST(RunQueueTest, CountsWhatNobodyReads) {
  RunQueue queue;
  const auto calls = Calls((1 << 20) / sizeof(TraceRecord));
  const uint64_t fits = RunQueue::kMostBytes / (calls.size() * sizeof(calls[0]));
  for (uint64_t i = 0; i < fits + 3; ++i) Push(&queue, calls);
  EXPECT_EQ(queue.total(), (fits + 3) * calls.size());
  queue.PushEnded({7, 9});
  uint64_t bytes = 0, lost = 0, total = 0;
  pid_t ended = 0;
  queue.Close();
  Push(&queue, calls);  // too late
  while (auto event = queue.Pop(std::chrono::milliseconds(0))) {
    EXPECT_FALSE(queue.finished() && !event.has_value());
    bytes += event->records().records().size();
    lost += event->records().lost();
    if (event->has_records()) total = event->records().total();
    if (event->has_ended()) ended = static_cast<pid_t>(event->ended().pid());
  }
  EXPECT_TRUE(queue.finished());
  EXPECT_EQ(bytes, fits * calls.size() * sizeof(calls[0]));
  EXPECT_EQ(lost, 3 * calls.size());
  EXPECT_EQ(total, (fits + 3) * calls.size());
  EXPECT_EQ(ended, 7);
}

TEST(RunQueueTest, WaitsForTheNextEventAndForTheEnd) {
  RunQueue queue;
  EXPECT_FALSE(queue.Pop(std::chrono::milliseconds(1)).has_value());
  EXPECT_FALSE(queue.finished());
  Push(&queue, Calls(2));
  const auto event = queue.Pop(std::chrono::seconds(10));
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->records().total(), 2u);
  queue.Close();
  EXPECT_FALSE(queue.Pop(std::chrono::seconds(10)).has_value());
  EXPECT_TRUE(queue.finished());
}

// Without any process.
class SessionApiTest : public testing::Test {
 protected:
  void SetUp() override {
    StartService();
    engine_ = std::make_unique<SessionEngine>(std::make_shared<RemoteRunner>(socket_));
  }
  void StartService() { service_.emplace(directory_.path(), socket_); }
  FilterSpec Waves() {
    FilterSpec spec;
    spec.kind = FilterKind::kCounters;
    spec.counters = {{"SQ_WAVES"}};
    return spec;
  }

  const testing_support::TemporaryDirectory directory_;
  const std::string socket_ = directory_ / "socket";
  std::optional<ServiceOnSocket> service_;
  std::unique_ptr<SessionEngine> engine_;
};

void Ignore(const RecordHeader*, const RecordHeader*, SessionId, BufferId) {}

TEST_F(SessionApiTest, SessionsRunInTheService) {
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto session = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(session.ok()) << session.status();
  ASSERT_TRUE(engine_->StartSession(*session).ok());
  ASSERT_EQ(service_->sessions().List().size(), 1u);
  EXPECT_TRUE(service_->sessions().List()[0].active);
  EXPECT_TRUE(service_->sessions().holds_arrivals());
  // Another program's.
  SessionEngine other(std::make_shared<RemoteRunner>(socket_));
  ASSERT_TRUE(other.Initialize().ok());
  const auto second = other.CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(second.ok());
  const absl::Status refused = other.StartSession(*second);
  EXPECT_EQ(SessionStatusOf(refused), S::kHasActiveSession) << refused;
  EXPECT_TRUE(engine_->TerminateSession(*session).ok());
  EXPECT_TRUE(service_->sessions().List()[0].over);
  EXPECT_TRUE(other.StartSession(*second).ok());
  EXPECT_TRUE(other.Finalize().ok());
  EXPECT_FALSE(service_->sessions().holds_arrivals());
  ASSERT_TRUE(engine_->StartSession(*session).ok()) << "again, as often as wanted";
}

TEST_F(SessionApiTest, ErrorsOfTheServiceKeepTheirNumbers) {
  EXPECT_EQ(SessionStatusOf(engine_->devices().Create({"SQ_WAVES"}, 0).status()),
            S::kAgentNotFound);
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto session = engine_->CreateSession(-1);
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(SessionStatusOf(engine_->AddSessionProcess(*session, 4711)),
            S::kInvalidArguments);
  FilterSpec spec = Waves();
  spec.counters = {{"SQ_WAVE"}};
  const auto filter = engine_->filters().Create(*session, spec);
  EXPECT_EQ(SessionStatusOf(filter.status()), S::kCounterNotFound);
  EXPECT_THAT(std::string(filter.status().message()), HasSubstr("SQ_WAVES"));
  spec.kind = FilterKind::kSpm;
  EXPECT_EQ(SessionStatusOf(engine_->filters().Create(*session, spec).status()),
            S::kFilterNotSupported);
}

TEST_F(SessionApiTest, AServiceThatWasStartedAgainIsFoundAgain) {
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto session = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(engine_->StartSession(*session).ok());
  service_.reset();
  const absl::Status gone = engine_->TerminateSession(*session);
  EXPECT_EQ(SessionStatusOf(gone), S::kError) << "what it collected is not whole";
  const absl::Status nobody = engine_->StartSession(*session);
  EXPECT_EQ(SessionStatusOf(nobody), S::kError);
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("no answer at"));
  StartService();
  EXPECT_TRUE(engine_->StartSession(*session).ok());
  EXPECT_TRUE(engine_->TerminateSession(*session).ok());
}

TEST_F(SessionApiTest, StoppedByOthersIsNoSuccess) {
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto session = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(engine_->StartSession(*session).ok());
  ASSERT_TRUE(service_->sessions().Stop(service_->sessions().List()[0].number).ok());
  const absl::Status ended = engine_->TerminateSession(*session);
  EXPECT_EQ(SessionStatusOf(ended), S::kError);
}

}  // namespace
}  // namespace rocattach
