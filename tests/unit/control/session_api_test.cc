// What goes over the wire between a program's sessions and the service; the whole way
// with real processes is tests/integration/library.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "tests/temporary_directory.h"
#include "tests/unit/control/service_on_socket.h"
#include "userspace/base/session_status.h"
#include "userspace/base/unique_fd.h"
#include "userspace/control/run_queue.h"
#include "userspace/control/service_connection.h"
#include "userspace/control/session_wire.h"
#include "userspace/library/remote_runner.h"
#include "userspace/library/session_engine.h"

namespace rocattach {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using S = SessionStatus;

// More than a header has room for would cost the call its status.
TEST(SessionWireTest, LongMessagesAreCutBetweenCharacters) {
  const std::string name(1998, 'x');
  EXPECT_EQ(WireMessage(name), name);
  EXPECT_EQ(WireMessage(name + "äöü"), name + "ä…");
  EXPECT_EQ(WireMessage(name + "y" + "öüä"), name + "y…");
  const absl::Status status =
      FromGrpc(ToGrpc(SessionError(S::kCounterNotFound, std::string(1 << 20, 'z'))));
  EXPECT_EQ(SessionStatusOf(status), S::kCounterNotFound);
  EXPECT_LT(status.message().size(), 2100u);
}

TEST(SessionWireTest, EveryStatusKeepsItsNumberAndItsWords) {
  EXPECT_TRUE(FromGrpc(ToGrpc(absl::OkStatus())).ok());
  for (int number = kLastSessionStatus; number < 0; ++number) {
    const absl::Status status = SessionError(static_cast<S>(number), "why");
    const absl::Status back = FromGrpc(ToGrpc(status));
    EXPECT_EQ(static_cast<int>(SessionStatusOf(back)), number);
    EXPECT_EQ(back.message(), "why");
  }
  const absl::Status other = FromGrpc(ToGrpc(absl::NotFoundError("nobody")));
  EXPECT_EQ(SessionStatusOf(other), S::kError);
  EXPECT_EQ(other.code(), absl::StatusCode::kNotFound);
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

// What a session's callback for a loss was told.
struct Losses {
  absl::Mutex mutex;
  std::vector<std::pair<SessionId, absl::Status>> told ABSL_GUARDED_BY(mutex);

  SessionLostCallback Callback() {
    return [this](SessionId session, const absl::Status& why) {
      absl::MutexLock lock(&mutex);
      told.emplace_back(session, why);
    };
  }
  bool Wait(size_t count) {
    for (int i = 0; i < 1000; ++i) {
      {
        absl::MutexLock lock(&mutex);
        if (told.size() >= count) return true;
      }
      absl::SleepFor(absl::Milliseconds(10));
    }
    return false;
  }
};

TEST_F(SessionApiTest, ALostServiceIsToldAndTheSessionCanStartAgain) {
  Losses losses;
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto session = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(session.ok());
  ASSERT_TRUE(engine_->SetLostCallback(*session, losses.Callback()).ok());
  EXPECT_EQ(SessionStatusOf(engine_->CheckActive(*session)), S::kSessionNotActive);
  ASSERT_TRUE(engine_->StartSession(*session).ok());
  EXPECT_TRUE(engine_->CheckActive(*session).ok());
  service_.reset();
  ASSERT_TRUE(losses.Wait(1));
  {
    absl::MutexLock lock(&losses.mutex);
    EXPECT_EQ(losses.told[0].first, *session);
    EXPECT_EQ(SessionStatusOf(losses.told[0].second), S::kError);
  }
  const absl::Status lost = engine_->CheckActive(*session);
  EXPECT_EQ(SessionStatusOf(lost), S::kError);
  EXPECT_THAT(std::string(lost.message()), Not(HasSubstr("ERROR: ERROR")));
  EXPECT_EQ(SessionStatusOf(engine_->StartSession(*session)), S::kError)
      << "nobody would carry it out";
  StartService();
  ASSERT_TRUE(engine_->StartSession(*session).ok()) << "without a terminate before";
  EXPECT_TRUE(engine_->CheckActive(*session).ok());
  EXPECT_EQ(service_->sessions().List().size(), 1u);
  EXPECT_TRUE(engine_->TerminateSession(*session).ok());
  EXPECT_EQ(SessionStatusOf(engine_->TerminateSession(*session)), S::kSessionNotActive);
  absl::MutexLock lock(&losses.mutex);
  EXPECT_EQ(losses.told.size(), 1u) << "once, and not for a terminate";
}

TEST_F(SessionApiTest, ALostSessionIsTerminatedOnceAndFinalizedAndDestroyed) {
  ASSERT_TRUE(engine_->Initialize().ok());
  std::vector<SessionId> sessions;
  Losses losses;
  FilterSpec times;
  for (int i = 0; i < 3; ++i) {
    const auto session = engine_->CreateReadySession(-1, times, 65536, Ignore, nullptr);
    ASSERT_TRUE(session.ok());
    ASSERT_TRUE(engine_->SetLostCallback(*session, losses.Callback()).ok());
    sessions.push_back(*session);
  }
  ASSERT_TRUE(engine_->StartSession(sessions[0]).ok());
  service_.reset();
  ASSERT_TRUE(losses.Wait(1));
  const absl::Status ended = engine_->TerminateSession(sessions[0]);
  EXPECT_EQ(SessionStatusOf(ended), S::kError);
  EXPECT_THAT(std::string(ended.message()), Not(HasSubstr("ERROR: ERROR")));
  EXPECT_EQ(SessionStatusOf(engine_->TerminateSession(sessions[0])),
            S::kSessionNotActive);
  StartService();
  ASSERT_TRUE(engine_->StartSession(sessions[1]).ok());
  service_.reset();
  ASSERT_TRUE(losses.Wait(2));
  EXPECT_TRUE(engine_->DestroySession(sessions[1]).ok());
  StartService();
  ASSERT_TRUE(engine_->StartSession(sessions[2]).ok());
  service_.reset();
  ASSERT_TRUE(losses.Wait(3));
  EXPECT_TRUE(engine_->Finalize().ok());
}

// A callback may do what a program does when it learns of the loss.
TEST_F(SessionApiTest, TheCallbackOfALossMayCallBack) {
  ASSERT_TRUE(engine_->Initialize().ok());
  absl::Notification done;
  std::vector<S> statuses;
  const auto session = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(session.ok());
  const auto calls = [&](SessionId id, const absl::Status&) {
    statuses.push_back(SessionStatusOf(engine_->CheckActive(id)));
    statuses.push_back(SessionStatusOf(engine_->StartSession(id)));
    statuses.push_back(SessionStatusOf(engine_->TerminateSession(id)));
    statuses.push_back(SessionStatusOf(engine_->DestroySession(id)));
    statuses.push_back(SessionStatusOf(engine_->CheckActive(id)));
    done.Notify();
  };
  ASSERT_TRUE(engine_->SetLostCallback(*session, calls).ok());
  ASSERT_TRUE(engine_->StartSession(*session).ok());
  service_.reset();
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_THAT(statuses, ElementsAre(S::kError, S::kError, S::kSessionNotActive,
                                    S::kSuccess, S::kSessionNotFound));
}

// A stopped service still has its socket: connections are made, and nobody answers.
TEST_F(SessionApiTest, AServiceThatDoesNotAnswerIsGivenUpAfterSeconds) {
  service_.reset();
  unlink(socket_.c_str());
  UniqueFd silent(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(socket_.size(), sizeof(address.sun_path));
  memcpy(address.sun_path, socket_.c_str(), socket_.size() + 1);
  ASSERT_EQ(bind(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)),
            0);
  ASSERT_EQ(listen(silent.get(), 8), 0);
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status given_up = engine_->Initialize();
  EXPECT_EQ(SessionStatusOf(given_up), S::kError);
  EXPECT_THAT(std::string(given_up.message()), HasSubstr("does not answer"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(engine_->Initialize().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  silent.reset();
  unlink(socket_.c_str());
  StartService();
  EXPECT_TRUE(engine_->Initialize().ok());
}

TEST_F(SessionApiTest, ErrorsNameSessionsByTheHandlesOfTheProgram) {
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto first = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  const auto second = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(first.ok() && second.ok());
  ASSERT_TRUE(engine_->StartSession(*second).ok());
  const absl::Status owned = engine_->StartSession(*first);
  EXPECT_EQ(SessionStatusOf(owned), S::kHasActiveSession);
  EXPECT_THAT(std::string(owned.message()),
              HasSubstr(absl::StrCat("session ", static_cast<uint64_t>(*second),
                                     " of this program")));
  EXPECT_THAT(std::string(engine_->TerminateSession(*first).message()),
              HasSubstr(absl::StrCat("session ", static_cast<uint64_t>(*first))));
  SessionEngine other(std::make_shared<RemoteRunner>(socket_));
  ASSERT_TRUE(other.Initialize().ok());
  const auto third = other.CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  EXPECT_THAT(std::string(other.StartSession(*third).message()),
              HasSubstr("session 1 of the service"));
}

// Its sessions are closed, its socket not yet: that is not the program's own end.
TEST_F(SessionApiTest, AServiceThatIsEndingSaysSo) {
  ASSERT_TRUE(engine_->Initialize().ok());
  const auto session = engine_->CreateReadySession(-1, Waves(), 65536, Ignore, nullptr);
  ASSERT_TRUE(session.ok());
  service_->sessions().Close();
  const absl::Status started = engine_->StartSession(*session);
  EXPECT_EQ(SessionStatusOf(started), S::kError) << started;
  EXPECT_THAT(std::string(started.message()), HasSubstr("is ending"));
  const absl::Status device = engine_->devices().Create({"SQ_WAVES"}, 0).status();
  EXPECT_NE(SessionStatusOf(device), S::kNotInitialized) << device;
  ServiceConnection client(socket_);
  v1::SessionRequest request;
  request.add_filters()->set_kind(v1::FILTER_KIND_DISPATCHES);
  const absl::Status refused =
      client.Call(&ServiceConnection::Stub::AsyncStart, request).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("ending"));
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
