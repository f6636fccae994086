// Sessions over the recorder, with a collector's memory that a thread of the test
// plays: well, badly, or not at all.
#include "userspace/watch/session_service.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "tests/unit/watch/fake_collector.h"
#include "userspace/base/clock.h"
#include "userspace/session/session_status.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"

namespace rocattach {
namespace {

using ::testing::HasSubstr;

// Answers plans as a collector would. `error` other than 0 refuses them.
class Player {
 public:
  explicit Player(FakeCollector* fake, uint32_t error = 0)
      : fake_(fake), thread_([this, error] {
          while (!stop_) {
            const uint64_t generation = Generation();
            if (generation % 2 == 0 && generation != 0 && generation != answered_) {
              if (plan()->record_kinds != 0) {
                fake_->control()->plan_error = error;
                strcpy(fake_->control()->plan_error_text,
                       error ? "no \x1b SQ_WAVES" : "");
              }
              answered_ = generation;
              __atomic_store_n(&fake_->control()->plan_acked, generation,
                               __ATOMIC_RELEASE);
            }
            usleep(200);
          }
        }) {}
  ~Player() {
    stop_ = true;
    thread_.join();
  }
  rocattach_plan* plan() { return fake_->plan(); }
  uint64_t Generation() {
    return __atomic_load_n(&plan()->generation, __ATOMIC_ACQUIRE);
  }

 private:
  FakeCollector* fake_;
  uint64_t answered_ = 0;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

struct Seen : StreamVisitor {
  std::vector<rocattach_dispatch> dispatches;
  std::vector<CounterRecord> values, samples;
  std::vector<ApiCallRecord> calls;
  std::vector<v1::SessionEvent> events;
  std::vector<v1::SessionPlan> plans;
  v1::LossAccount account;
  void OnDispatches(const FrameContext&,
                    absl::Span<const rocattach_dispatch> records) override {
    dispatches.insert(dispatches.end(), records.begin(), records.end());
  }
  void OnCounters(const FrameContext&, absl::Span<const CounterRecord> r) override {
    values.insert(values.end(), r.begin(), r.end());
  }
  void OnSamples(const FrameContext&, absl::Span<const CounterRecord> r) override {
    samples.insert(samples.end(), r.begin(), r.end());
  }
  void OnApiCalls(const FrameContext&, absl::Span<const ApiCallRecord> r) override {
    calls.insert(calls.end(), r.begin(), r.end());
  }
  void OnSession(const FrameContext&, const v1::SessionEvent& event) override {
    events.push_back(event);
  }
  void OnSessionPlan(const FrameContext&, const v1::SessionPlan& plan) override {
    plans.push_back(plan);
  }
  void OnAccount(const FrameContext&, const v1::LossAccount& a) override {
    account = a;
  }
};

FilterSpec Counters(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {std::move(names)};
  return spec;
}

class SessionServiceTest : public testing::Test {
 protected:
  static constexpr uint32_t kAll =
      ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS |
      ROCATTACH_PLAN_RECORD_SAMPLES | ROCATTACH_PLAN_RECORD_API;

  void SetUp() override {
    char pattern[] = "/tmp/rocattach-session-test.XXXXXX";
    ASSERT_NE(mkdtemp(pattern), nullptr);
    directory_ = pattern;
    service_ = std::make_unique<SessionService>(
        std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()),
        [this](pid_t, const std::string& why) {
          std::lock_guard<std::mutex> lock(mutex_);
          refused_ = why;
          ++times_refused_;
        });
    RecorderOptions options;
    options.output = {directory_, "run", {}};
    options.targets = service_->backend();
    auto recorder = Recorder::Start(options, nullptr);
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    recorder_ = *std::move(recorder);
    service_->SetRecorder(recorder_.get());
  }
  void TearDown() override {
    if (service_ != nullptr) service_->Close();
    recorder_.reset();
    std::filesystem::remove_all(directory_);
  }

  rocattach_event Event(uint32_t type, uint32_t number) {
    rocattach_event event = {};
    event.type = type;
    event.pid = 5'000'000 + number;
    event.tid = event.pid;
    event.start_ns = 1'000'000'000;
    event.time_ns = window_ns_;
    return event;
  }
  // A process with one GPU appears.
  void Arrive(FakeCollector* fake, uint32_t number = 0, uint32_t kinds = kAll,
              bool acknowledged = true, std::string uuid = "") {
    Window window;
    window.event = Event(ROCATTACH_EVENT_WINDOW, number);
    window.attach_tried = true;
    window.outcome.stage = AttachStage::kDone;
    recorder_->OnWindow(std::move(window));
    recorder_->OnReady(Event(ROCATTACH_EVENT_READY, number),
                       *CollectorMemory::MapFd(fake->fd()), acknowledged);
    if (uuid.empty()) uuid = "GPU-0123456789abcde" + std::to_string(number);
    fake->AddGpu(1, "gfx90a", uuid);
    fake->control()->record_kinds = kinds;
    fake->control()->armed_ns = window_ns_ + 1'000'000;
    __atomic_store_n(&fake->control()->backend, ROCATTACH_BACKEND_SDK,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&fake->control()->state, ROCATTACH_STATE_ARMED, __ATOMIC_RELEASE);
    for (int i = 0; i < 2000 && service_->backend()->Targets().size() <= number; ++i) {
      usleep(1000);
    }
  }
  void Exit(uint32_t number = 0) {
    recorder_->OnEvent(Event(ROCATTACH_EVENT_EXIT, number));
  }
  Seen Finish() {
    service_->Close();
    EXPECT_TRUE(recorder_->Finish({}).ok());
    recorder_.reset();
    Seen seen;
    StreamDecoder decoder(&seen);
    EXPECT_TRUE(ReadStream(directory_ + "/run.rwa", {}, &decoder).ok());
    EXPECT_FALSE(decoder.stats().damaged());
    return seen;
  }

  // A dispatch with values of pass 0.
  static void PublishCounted(FakeCollector* fake, uint64_t correlation,
                             std::vector<double> sums, uint64_t generation) {
    rocattach_dispatch record = FakeCollector::Dispatch(correlation);
    record.agent_id = 1;
    record.flags = static_cast<uint16_t>(
        ROCATTACH_DISPATCH_BASELINE | ROCATTACH_DISPATCH_COUNTED |
        ROCATTACH_DISPATCH_FOR_COUNTERS | ROCATTACH_PLAN_TAG(generation) << 9);
    fake->ring(0)->dispatches_seen += 1;
    fake->ring(0)->counted_seen += 1;
    fake->Publish(0, &record);
    const auto slots = static_cast<uint16_t>((sums.size() + 1) / 2);
    for (uint16_t slot = 0; slot < slots; ++slot) {
      rocattach_values values = Values(correlation, generation, slot, slots);
      values.count = static_cast<uint16_t>(std::min<size_t>(2, sums.size() - 2 * slot));
      for (uint16_t i = 0; i < values.count; ++i) {
        const uint16_t counter = static_cast<uint16_t>(2 * slot + i);
        values.value[i] = {counter, 0, 4, sums[counter], 1, 2};
      }
      fake->Publish(0, &values);
    }
  }
  static rocattach_values Values(uint64_t correlation, uint64_t generation,
                                 uint16_t slot, uint16_t slots) {
    rocattach_values values = {};
    values.kind = ROCATTACH_RECORD_VALUES;
    values.correlation_id = correlation;
    values.plan_generation = generation;
    values.slot = slot;
    values.slots = slots;
    values.count = 1;
    values.agent_id = 1;
    values.of = ROCATTACH_RECORD_DISPATCH;
    values.value[0].instances = 1;
    return values;
  }
  void Drained() { usleep(50'000); }

  const uint64_t window_ns_ = BootNs();
  std::string directory_;
  std::unique_ptr<SessionService> service_;
  std::unique_ptr<Recorder> recorder_;
  std::mutex mutex_;
  std::string refused_;
  int times_refused_ = 0;
};

TEST_F(SessionServiceTest, StartsStopsAndStartsAgain) {
  FakeCollector fake;
  fake.AddKernel(1, "vadd");
  Player player(&fake);
  Arrive(&fake);
  for (int round = 1; round <= 3; ++round) {
    auto session = service_->Start({.filters = {Counters({"SQ_WAVES", "GRBM_COUNT"})}});
    ASSERT_TRUE(session.ok()) << session.status();
    EXPECT_EQ(player.plan()->counters, 2u);
    const uint64_t generation = player.Generation();
    PublishCounted(&fake, static_cast<uint64_t>(round), {10.0 * round, 7}, generation);
    ASSERT_TRUE(service_->Stop(*session).ok());
    EXPECT_EQ(player.plan()->record_kinds, 0u);
    EXPECT_GT(player.Generation(), generation);
  }
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.values.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(seen.values[i].operation, i / 2 + 1);
    EXPECT_EQ(seen.values[i].sum, i % 2 ? 7 : 10.0 * (i / 2 + 1));
    EXPECT_EQ(seen.values[i].kernel_id, 1u);
    EXPECT_EQ(seen.values[i].instances, 4u);
  }
  EXPECT_EQ(seen.plans.size(), 1u) << "the same plan is told once";
  ASSERT_EQ(seen.events.size(), 6u);
  for (size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(seen.events[i].what(),
              i % 2 ? v1::SessionEvent::STOPPED : v1::SessionEvent::STARTED);
  }
  EXPECT_EQ(seen.dispatches.size(), 3u);
  EXPECT_EQ(seen.dispatches[0].flags, 0) << "the tag stays between us and the target";
  EXPECT_EQ(seen.account.counted_seen(), 3u);
  EXPECT_EQ(seen.account.counted_delivered(), 3u);
  EXPECT_EQ(seen.account.counted_dropped(), 0u);
}

TEST_F(SessionServiceTest, TheCollectorsRefusalIsTold) {
  FakeCollector fake;
  Player player(&fake, ROCATTACH_PLAN_ERROR_NO_COUNTER);
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("no ? SQ_WAVES"));
  // It is free for the next one.
  EXPECT_FALSE(service_->needs_sdk());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.events.size(), 1u);
  EXPECT_EQ(seen.events[0].what(), v1::SessionEvent::REFUSED);
}

TEST_F(SessionServiceTest, AProcessWithoutTheSdkIsRefusedByNameAndTheOthersGoOn) {
  FakeCollector without, with;
  Player first(&without), second(&with);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(session.ok()) << "nobody is there yet: " << session.status();
  EXPECT_TRUE(service_->holds_arrivals());
  EXPECT_TRUE(service_->needs_sdk());
  Arrive(&without, 0, ROCATTACH_PLAN_RECORD_DISPATCHES, /*acknowledged=*/false);
  Arrive(&with, 1);
  for (int i = 0; i < 1000; ++i) {
    if (second.Generation() != 0 &&
        __atomic_load_n(&without.control()->service_mapped, __ATOMIC_ACQUIRE) != 0) {
      break;
    }
    usleep(1000);
  }
  EXPECT_EQ(without.control()->service_mapped, 1u) << "it is let go all the same";
  EXPECT_EQ(first.Generation(), 0u);
  EXPECT_NE(second.Generation(), 0u);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(refused_, HasSubstr("cannot give hardware counters"));
  }
  const std::vector<SessionInfo> list = service_->List();
  ASSERT_EQ(list.size(), 1u);
  EXPECT_EQ(list[0].running, (std::vector<pid_t>{5'000'001}));
  EXPECT_EQ(list[0].refused.size(), 1u);
  Exit(0);
  Exit(1);
}

// Two processes on one GPU: each has its own session, but the counters are one.
TEST_F(SessionServiceTest, TheCountersOfAGpuHaveOneOwner) {
  FakeCollector fakes[2];
  Player first_player(&fakes[0]), second_player(&fakes[1]);
  Arrive(&fakes[0], 0, kAll, true, "GPU-XX");
  Arrive(&fakes[1], 1, kAll, true, "GPU-XX");
  auto first =
      service_->Start({.pids = {5'000'000}, .filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(first.ok()) << first.status();
  auto second =
      service_->Start({.pids = {5'000'001}, .filters = {Counters({"GRBM_COUNT"})}});
  EXPECT_EQ(SessionStatusOf(second.status()), SessionStatus::kHasActiveSession);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("the counters of GPU 0000:03:00.0 belong to session 1"));
  EXPECT_EQ(second_player.Generation(), 0u) << "it was not asked";
  // Times of its dispatches are nobody's.
  FilterSpec times;
  second = service_->Start({.pids = {5'000'001}, .filters = {times}});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(service_->List().back().collects, std::vector<std::string>{"dispatches"});
  EXPECT_TRUE(service_->Stop(*second).ok());
  EXPECT_TRUE(service_->Stop(*first).ok());
  second =
      service_->Start({.pids = {5'000'001}, .filters = {Counters({"GRBM_COUNT"})}});
  EXPECT_TRUE(second.ok()) << second.status();
  Exit(0);
  Exit(1);
}

// A period that begins while another session owns the process is not lost in silence,
// and what is left of it is collected once that session is over.
TEST_F(SessionServiceTest, APeriodThatIsInTheWayWaitsAndSaysSo) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  auto owner =
      service_->Start({.pids = {5'000'000}, .filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(owner.ok()) << owner.status();
  SessionRequest request;
  request.filters = {Counters({"GRBM_COUNT"})};
  request.periods = {{10'000'000, 3'600'000'000'000, 1}};
  auto waiting = service_->Start(request);
  ASSERT_TRUE(waiting.ok()) << waiting.status();
  auto info = [&] { return service_->List().back(); };
  for (int i = 0; i < 2000 && info().waiting_for.empty(); ++i) usleep(1000);
  EXPECT_THAT(info().waiting_for, HasSubstr("session 1"));
  EXPECT_FALSE(info().active);
  EXPECT_TRUE(info().refused_by_all);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    EXPECT_THAT(refused_, HasSubstr("session 1"));
  }
  ASSERT_TRUE(service_->Stop(*owner).ok());
  for (int i = 0; i < 2000 && !info().active; ++i) usleep(1000);
  EXPECT_TRUE(info().active) << info().waiting_for;
  EXPECT_EQ(info().waiting_for, "");
  EXPECT_FALSE(info().refused_by_all);
  EXPECT_TRUE(service_->Stop(*waiting).ok());
  Exit();
  const Seen seen = Finish();
  std::vector<std::pair<int, int>> events;
  for (const v1::SessionEvent& event : seen.events) {
    events.emplace_back(event.session(), event.what());
  }
  using E = v1::SessionEvent;
  EXPECT_EQ(events, (std::vector<std::pair<int, int>>{{1, E::STARTED},
                                                      {2, E::REFUSED},
                                                      {1, E::STOPPED},
                                                      {2, E::STARTED},
                                                      {2, E::STOPPED}}));
}

// Every lost period stands in the stream; people are told once.
TEST_F(SessionServiceTest, EachLostPeriodIsRecorded) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  ASSERT_TRUE(
      service_->Start({.pids = {5'000'000}, .filters = {Counters({"SQ_WAVES"})}}).ok());
  SessionRequest request;
  request.filters = {Counters({"GRBM_COUNT"})};
  request.periods = {{60'000'000, 60'000'000, 3}};
  ASSERT_TRUE(service_->Start(request).ok());
  for (int i = 0; i < 2000 && !service_->List().back().over; ++i) usleep(1000);
  EXPECT_TRUE(service_->List().back().over);
  EXPECT_EQ(times_refused_, 1);
  Exit();
  int lost = 0;
  for (const v1::SessionEvent& event : Finish().events) {
    lost += event.session() == 2 && event.what() == v1::SessionEvent::REFUSED;
  }
  EXPECT_EQ(lost, 3);
}

// A session for all that only incapable processes could have carried out finds the one
// that comes later, in the middle of its period.
TEST_F(SessionServiceTest, APeriodThatAllRefusedGoesOnWithWhoComes) {
  FakeCollector without, with;
  Player first(&without), second(&with);
  Arrive(&without, 0, ROCATTACH_PLAN_RECORD_DISPATCHES);
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.periods = {{10'000'000, 3'600'000'000'000, 1}};
  auto session = service_->Start(request);
  ASSERT_TRUE(session.ok()) << session.status();
  for (int i = 0; i < 2000 && service_->List()[0].waiting_for.empty(); ++i) {
    usleep(1000);
  }
  EXPECT_THAT(service_->List()[0].waiting_for, HasSubstr("hardware counters"));
  Arrive(&with, 1);
  for (int i = 0; i < 2000 && service_->List()[0].running.empty(); ++i) usleep(1000);
  EXPECT_EQ(service_->List()[0].running, (std::vector<pid_t>{5'000'001}));
  Exit(0);
  Exit(1);
}

TEST_F(SessionServiceTest, TimesBeyondReasonAreRefused) {
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.duration_ns = UINT64_MAX;
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Start(request).status()));
  request.duration_ns = 0;
  request.periods = {{UINT64_MAX, 1, 1}};
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Start(request).status()));
  request.periods = {{1, UINT64_MAX, 1}};
  EXPECT_TRUE(absl::IsInvalidArgument(service_->Start(request).status()));
  EXPECT_TRUE(service_->List().empty());
}

TEST_F(SessionServiceTest, TheSecondSessionForAProcessIsToldWhoOwnsIt) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  auto first = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_TRUE(first.ok());
  auto second =
      service_->Start({.pids = {5'000'000}, .filters = {Counters({"GRBM_COUNT"})}});
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(SessionStatusOf(second.status()), SessionStatus::kHasActiveSession);
  EXPECT_THAT(std::string(second.status().message()),
              HasSubstr("session " + std::to_string(*first)));
  EXPECT_TRUE(service_->Stop(*first).ok());
  second =
      service_->Start({.pids = {5'000'000}, .filters = {Counters({"GRBM_COUNT"})}});
  EXPECT_TRUE(second.ok()) << second.status();
  Exit();
}

TEST_F(SessionServiceTest, AProcessThatDiesInTheMiddleOfAStartIsNoHang) {
  FakeCollector fake;  // nobody answers
  Arrive(&fake);
  std::thread killer([&] {
    usleep(100'000);
    Exit();
  });
  const uint64_t begin = BootNs();
  auto session =
      service_->Start({.pids = {5'000'000}, .filters = {Counters({"SQ_WAVES"})}});
  killer.join();
  EXPECT_FALSE(session.ok());
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("ended"));
  EXPECT_LT(BootNs() - begin, 1'500'000'000u);
  const Seen seen = Finish();
  ASSERT_GE(seen.events.size(), 1u);
  EXPECT_EQ(seen.events[0].what(), v1::SessionEvent::LOST);
}

TEST_F(SessionServiceTest, ASilentCollectorIsGivenUpInTime) {
  FakeCollector fake;
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES"})}});
  ASSERT_FALSE(session.ok());
  EXPECT_THAT(std::string(session.status().message()), HasSubstr("did not answer"));
  EXPECT_EQ(fake.plan()->record_kinds, 0u) << "the plan is taken back";
  Exit();
}

TEST_F(SessionServiceTest, HostileRecordsAreCountedNotBelieved) {
  FakeCollector fake;
  fake.AddKernel(1, "vadd");
  Player player(&fake);
  Arrive(&fake);
  auto session = service_->Start({.filters = {Counters({"SQ_WAVES", "GRBM_COUNT"})}});
  ASSERT_TRUE(session.ok());
  const uint64_t generation = player.Generation();
  // Values without a dispatch, of another plan, of another dispatch, cut off, with
  // counters and passes that the plan does not have.
  std::vector<rocattach_values> all(7, Values(1, generation, 0, 1));
  all[0].correlation_id = 99;
  all[1].plan_generation = generation + 2;
  all[2].slots = 40;
  all[3].value[0].counter = 2;
  all[4].pass = 1;
  all[5].count = 3;
  all[6].value[0].instances = 0;
  for (const rocattach_values& values : all) {
    rocattach_dispatch record = FakeCollector::Dispatch(1);
    record.agent_id = 1;
    record.flags = static_cast<uint16_t>(ROCATTACH_DISPATCH_COUNTED |
                                         ROCATTACH_DISPATCH_FOR_COUNTERS |
                                         ROCATTACH_PLAN_TAG(generation) << 9);
    fake.Publish(0, &record);
    fake.Publish(0, &values);
    Drained();
  }
  rocattach_values alone = Values(1, generation, 0, 1);
  fake.Publish(1, &alone);
  rocattach_sample sample = {};
  sample.kind = ROCATTACH_RECORD_SAMPLE;
  sample.plan_generation = 4711;
  sample.slots = 1;
  fake.Publish(1, &sample);
  rocattach_api_call call = {};
  call.kind = ROCATTACH_RECORD_API;
  call.domain = 77;
  fake.Publish(1, &call);
  Drained();
  // It scribbles over its plan and its answer, and still gets good ones counted.
  memset(static_cast<void*>(fake.plan()), 0x5a, sizeof(rocattach_plan));
  PublishCounted(&fake, 50, {3, 4}, generation);
  Drained();
  EXPECT_TRUE(service_->Stop(*session).ok());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.values.size(), 2u);
  EXPECT_EQ(seen.values[0].operation, 50u);
  EXPECT_TRUE(seen.samples.empty());
  EXPECT_TRUE(seen.calls.empty());
  EXPECT_EQ(seen.account.counted_dropped(), 7u);
  EXPECT_EQ(seen.account.samples_dropped(), 1u);
  EXPECT_EQ(seen.account.api_calls_dropped(), 1u);
}

TEST_F(SessionServiceTest, KernelNamesDecideWhatTheTargetCannot) {
  FakeCollector fake;
  fake.AddKernel(1, "vadd");
  fake.AddKernel(2, "scale");
  Player player(&fake);
  Arrive(&fake);
  FilterSpec spec = Counters({"SQ_WAVES"});
  spec.selection.kernel_include = {"^va"};
  auto session = service_->Start({.filters = {spec}});
  ASSERT_TRUE(session.ok()) << session.status();
  const rocattach_plan_selection& selection =
      player.plan()->selections[ROCATTACH_PLAN_SELECTION_COUNTERS];
  EXPECT_EQ(selection.kernels_decided, 3u);
  EXPECT_EQ(selection.kernels[0], 2u);
  fake.AddKernel(3, "vadd<double>");
  Drained();
  EXPECT_EQ(selection.kernels_decided, 4u);
  EXPECT_EQ(selection.kernels[0], 2u | 8u);
  // Recorded before that was known.
  for (uint32_t kernel = 2; kernel <= 3; ++kernel) {
    rocattach_dispatch record = FakeCollector::Dispatch(kernel);
    record.kernel_id = kernel;
    record.agent_id = 1;
    record.flags = static_cast<uint16_t>(ROCATTACH_DISPATCH_COUNTED |
                                         ROCATTACH_DISPATCH_FOR_COUNTERS |
                                         ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED |
                                         ROCATTACH_PLAN_TAG(player.Generation()) << 9);
    fake.ring(0)->dispatches_seen += 1;
    fake.ring(0)->counted_seen += 1;
    fake.Publish(0, &record);
    rocattach_values values = Values(kernel, player.Generation(), 0, 1);
    fake.Publish(0, &values);
  }
  Drained();
  EXPECT_TRUE(service_->Stop(*session).ok());
  Exit();
  const Seen seen = Finish();
  ASSERT_EQ(seen.values.size(), 1u);
  EXPECT_EQ(seen.values[0].kernel_id, 3u);
  ASSERT_EQ(seen.dispatches.size(), 1u);
  EXPECT_EQ(seen.account.dispatches_seen(), 1u);
  EXPECT_EQ(seen.account.counted_seen(), 1u);
}

TEST_F(SessionServiceTest, TimeEndsAndRepeats) {
  FakeCollector fake;
  Player player(&fake);
  Arrive(&fake);
  SessionRequest request;
  request.filters = {Counters({"SQ_WAVES"})};
  request.periods = {{60'000'000, 60'000'000, 3}};
  auto session = service_->Start(request);
  ASSERT_TRUE(session.ok());
  for (int i = 0; i < 2000 && !service_->List()[0].over; ++i) usleep(1000);
  EXPECT_TRUE(service_->List()[0].over);
  request.periods.clear();
  request.duration_ns = 30'000'000;
  ASSERT_TRUE(service_->Start(request).ok());
  for (int i = 0; i < 2000 && !service_->List()[1].over; ++i) usleep(1000);
  EXPECT_TRUE(service_->List()[1].over);
  Exit();
  const Seen seen = Finish();
  EXPECT_EQ(seen.events.size(), 8u);
}

}  // namespace
}  // namespace rocattach
