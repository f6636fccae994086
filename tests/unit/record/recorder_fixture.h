// A recorder of processes that do not exist, and the contents of its recording.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_RECORDER_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_RECORD_RECORDER_FIXTURE_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "tests/temporary_directory.h"
#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/made_up_event.h"
#include "userspace/base/clock.h"
#include "userspace/record/arrival.h"
#include "userspace/record/drain/collector_memory.h"
#include "userspace/record/recorder.h"
#include "userspace/stream/decoder.h"
#include "userspace/stream/reader.h"
#include "userspace/stream/visitor.h"

namespace rocattach {

// The contents of a recording, by stream.
struct RecordedRun : StreamVisitor {
  std::map<uint32_t, v1::Process> processes;
  std::map<uint32_t, v1::WindowEvent> verdicts;
  std::map<uint64_t, v1::WindowEvent> windows;  // by hit_ns: the last event of each
  std::optional<v1::WatcherSummary> summary;
  std::map<uint32_t, v1::LossAccount> accounts;
  std::map<uint32_t, v1::ProcessEnd> ends;
  std::map<uint32_t, std::vector<rocattach_dispatch>> dispatches;
  int damage = 0;
  void OnProcess(const FrameContext& c, const v1::Process& p) override {
    processes[c.stream] = p;
  }
  void OnWindow(const FrameContext& c, const v1::WindowEvent& e) override {
    verdicts[c.stream] = e;
    windows[e.hit_ns()] = e;
  }
  void OnSummary(const FrameContext&, const v1::WatcherSummary& s) override {
    summary = s;
  }
  void OnAccount(const FrameContext& c, const v1::LossAccount& a) override {
    accounts[c.stream] = a;
  }
  void OnProcessEnd(const FrameContext& c, const v1::ProcessEnd& e) override {
    ends[c.stream] = e;
  }
  void OnDispatches(const FrameContext& c,
                    absl::Span<const rocattach_dispatch> records) override {
    auto& all = dispatches[c.stream];
    all.insert(all.end(), records.begin(), records.end());
  }
  void OnDamage(const Damage&) override { ++damage; }
};

class RecorderTest : public testing::Test {
 protected:
  void SetUp() override {
    RecorderOptions options;
    options.output = {directory_.path(), "run", {}};
    options.report_timeout_ns = report_timeout_ns_;
    options.operations_timeout_ns = operations_timeout_ns_;
    auto recorder = Recorder::Start(options, {});
    ASSERT_TRUE(recorder.ok()) << recorder.status();
    recorder_ = *std::move(recorder);
  }

  rocattach_event Event(uint32_t type, uint32_t number = 0) {
    return MadeUpEvent(type, number, window_ns_);
  }
  Window Attached(uint32_t number = 0) {
    Window window;
    window.event = Event(ROCATTACH_EVENT_WINDOW, number);
    window.event.mode = ROCATTACH_WINDOW_HELD;
    window.attach_tried = true;
    window.outcome.stage = AttachStage::kDone;
    window.outcome.stopped_ns = window_ns_ + 80'000;
    window.outcome.released_ns = window_ns_ + 200'000;
    return window;
  }
  // The report of a collector whose memory the service has mapped.
  Arrival Report(const FakeCollector& fake, uint32_t number = 0,
                 bool acknowledged = true) {
    auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
    EXPECT_TRUE(memory.ok()) << memory.status();
    if (!memory.ok()) return {};
    return {Event(ROCATTACH_EVENT_READY, number), *std::move(memory), acknowledged, {}};
  }
  void ReportIn(const FakeCollector& fake, uint32_t number = 0) {
    recorder_->OnArrival(Report(fake, number));
  }
  void Arm(FakeCollector* fake) {
    fake->control()->armed_ns = window_ns_ + 1'000'000;
    __atomic_store_n(&fake->control()->state, ROCATTACH_STATE_ARMED, __ATOMIC_RELEASE);
  }
  RecordedRun Finish() {
    EXPECT_TRUE(recorder_->Finish({}).ok());
    RecordedRun seen;
    StreamDecoder decoder(&seen);
    EXPECT_TRUE(ReadStream(directory_ / "run.rwa", {}, &decoder).ok());
    EXPECT_EQ(seen.damage, 0);
    return seen;
  }
  bool WaitFor(const std::function<bool(const RunTotals&)>& done) {
    for (int i = 0; i < 20'000; ++i) {
      if (done(recorder_->Totals())) return true;
      usleep(5000);
    }
    return false;
  }

  // Longer than a report takes on any machine.
  uint64_t report_timeout_ns_ = 600'000'000'000;
  uint64_t operations_timeout_ns_ = RecorderOptions().operations_timeout_ns;
  uint64_t window_ns_ = BootNs();
  const testing_support::TemporaryDirectory directory_;
  std::unique_ptr<Recorder> recorder_;
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_RECORDER_FIXTURE_H_
