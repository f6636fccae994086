// Sessions over the recorder. A thread of the test plays the collector: well, badly,
// or not at all.
#ifndef ROCATTACH_TESTS_UNIT_SERVICE_SESSION_SERVICE_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_SERVICE_SESSION_SERVICE_FIXTURE_H_

#include <gtest/gtest.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/await.h"
#include "tests/temporary_directory.h"
#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/made_up_event.h"
#include "userspace/base/clock.h"
#include "userspace/service/session_service.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"

namespace rocattach {

class Player {
 public:
  explicit Player(FakeCollector* fake, uint32_t error = 0)
      : fake_(fake), thread_([this, error] {
          while (!stop_) {
            if (hold_) {
              std::this_thread::yield();
              continue;
            }
            if (scribble_) {
              memset(static_cast<void*>(plan()), 0x5a, sizeof(rocattach_plan));
              scribble_ = false;
            }
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
  // Makes the collector overwrite its own plan, as a hostile target may.
  void Scribble() {
    scribble_ = true;
    testing_support::Await([this] { return !scribble_; }, "the plan to be overwritten");
  }
  // While on, no plan is answered.
  void Hold(bool on) { hold_ = on; }
  rocattach_plan* plan() { return fake_->plan(); }
  uint64_t Generation() {
    return __atomic_load_n(&plan()->generation, __ATOMIC_ACQUIRE);
  }

 private:
  FakeCollector* fake_;
  uint64_t answered_ = 0;
  std::atomic<bool> stop_ = false, scribble_ = false, hold_ = false;
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

inline FilterSpec Counters(std::vector<std::string> names) {
  FilterSpec spec;
  spec.kind = FilterKind::kCounters;
  spec.counters = {std::move(names)};
  return spec;
}

class SessionServiceTest : public testing::Test, public SessionObserver {
 protected:
  void OnSessionRefused(pid_t, const std::string& why) override {
    std::lock_guard<std::mutex> lock(mutex_);
    refused_ = why;
    ++times_refused_;
  }
  void OnPeriodsSkipped(pid_t, uint64_t periods, const std::string&) override {
    std::lock_guard<std::mutex> lock(mutex_);
    skipped_ = periods;
    ++times_skipped_;
  }

  static constexpr uint32_t kAll =
      ROCATTACH_PLAN_RECORD_DISPATCHES | ROCATTACH_PLAN_RECORD_COUNTERS |
      ROCATTACH_PLAN_RECORD_SAMPLES | ROCATTACH_PLAN_RECORD_API;

  void SetUp() override {
    service_ = std::make_unique<SessionService>(
        std::make_shared<CounterCatalog>(*CounterCatalog::Builtin()), this);
    RecorderOptions options;
    options.output = {directory_.path(), "run", {}};
    options.targets = service_->targets();
    auto recorder = Recorder::Start(options, {});
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    recorder_ = *std::move(recorder);
    service_->SetRecorder(recorder_.get());
  }
  void TearDown() override {
    if (service_ != nullptr) service_->Close();
    recorder_.reset();
  }

  rocattach_event Event(uint32_t type, uint32_t number) {
    return MadeUpEvent(type, number, window_ns_);
  }
  // Makes a process with one GPU arrive.
  void Arrive(FakeCollector* fake, uint32_t number = 0, uint32_t kinds = kAll,
              bool acknowledged = true, std::string uuid = "") {
    Window window;
    window.event = Event(ROCATTACH_EVENT_WINDOW, number);
    window.attach_tried = true;
    window.outcome.stage = AttachStage::kDone;
    recorder_->OnWindow(std::move(window));
    recorder_->OnArrival({Event(ROCATTACH_EVENT_READY, number),
                          *CollectorMemory::MapFd(fake->fd(), FakeCollector::Config()),
                          acknowledged,
                          {}});
    if (uuid.empty()) uuid = "GPU-0123456789abcde" + std::to_string(number);
    fake->AddGpu(1, architecture_, uuid, xccs_);
    fake->control()->record_kinds = kinds;
    fake->control()->armed_ns = window_ns_ + 1'000'000;
    __atomic_store_n(&fake->control()->backend, ROCATTACH_BACKEND_SDK,
                     __ATOMIC_RELEASE);
    __atomic_store_n(&fake->control()->state, ROCATTACH_STATE_ARMED, __ATOMIC_RELEASE);
    for (int i = 0; i < 2000 && service_->targets()->Targets().size() <= number; ++i) {
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
    EXPECT_TRUE(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
    EXPECT_FALSE(decoder.stats().damaged());
    return seen;
  }

  // Publishes a dispatch with values of pass 0.
  static void PublishCounted(FakeCollector* fake, uint64_t correlation,
                             std::vector<double> sums, uint64_t generation) {
    rocattach_dispatch record = FakeCollector::Dispatch(correlation);
    record.agent_id = 1;
    record.flags = static_cast<uint16_t>(
        ROCATTACH_DISPATCH_BASELINE | ROCATTACH_DISPATCH_COUNTED |
        ROCATTACH_DISPATCH_FOR_COUNTERS | ROCATTACH_PLAN_TAG(generation) << 9);
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
  // Waits until everything that the collector has published has been drained.
  void AwaitDrained(FakeCollector* fake) {
    for (uint32_t i = 0; i < FakeCollector::kRings; ++i) {
      rocattach_ring* ring = fake->ring(i);
      const auto drained = [ring] {
        return __atomic_load_n(&ring->tail, __ATOMIC_ACQUIRE) == ring->head;
      };
      testing_support::Await(drained, "a ring to be drained");
    }
    // Wait for the end of the round that read it.
    std::atomic<bool> over = false;
    ASSERT_TRUE(recorder_->RunOnThread([&over] { over = true; }));
    testing_support::Await([&over] { return over.load(); }, "the end of the round");
  }

  const uint64_t window_ns_ = BootNs();
  // Properties of the GPUs of arriving processes.
  std::string architecture_ = "gfx90a";
  uint32_t xccs_ = 0;
  const testing_support::TemporaryDirectory directory_;
  std::unique_ptr<SessionService> service_;
  std::unique_ptr<Recorder> recorder_;
  std::mutex mutex_;
  std::string refused_;
  int times_refused_ = 0;
  uint64_t skipped_ = 0;  // periods, as last reported
  int times_skipped_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_SERVICE_SESSION_SERVICE_FIXTURE_H_
