// Targets without processes, whose streams go into a file of the test.
#ifndef ROCATTACH_TESTS_UNIT_RECORD_TARGET_FIXTURE_H_
#define ROCATTACH_TESTS_UNIT_RECORD_TARGET_FIXTURE_H_

#include <gtest/gtest.h>

#include <memory>
#include <utility>

#include "tests/unit/record/fake_collector.h"
#include "tests/unit/record/made_up_event.h"
#include "tests/unit/record/recording_fixture.h"
#include "userspace/record/target.h"

namespace rocattach {

class TargetTest : public RecordingTest {
 protected:
  static constexpr uint64_t kWindowNs = 5'000'000'000;
  static constexpr uint32_t kUser = 1000;

  void TearDown() override {
    if (output_.has_value()) {
      EXPECT_TRUE(output_->status().ok()) << output_->status();
    }
  }

  // The window of a process that does not exist, after an attach that succeeded.
  static Window Attached(uint32_t number = 0, uint32_t uid = kUser) {
    Window window;
    window.event = MadeUpEvent(ROCATTACH_EVENT_WINDOW, number, kWindowNs);
    window.event.uid = uid;
    window.event.mode = ROCATTACH_WINDOW_HELD;
    window.attach_tried = true;
    window.outcome.stage = AttachStage::kDone;
    return window;
  }
  std::unique_ptr<Target> NewTarget(Window window) {
    const auto output = output_->OpenProcess(window.process, {});
    EXPECT_TRUE(output.ok()) << output.status();
    return std::make_unique<Target>(std::move(window), *output, v1::Process(),
                                    &*output_);
  }
  // Makes the collector report in.
  static void Report(const FakeCollector& fake, Target* target) {
    auto memory = CollectorMemory::MapFd(fake.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok()) << memory.status();
    target->SetMemory(*std::move(memory), true, true);
  }
};

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_RECORD_TARGET_FIXTURE_H_
