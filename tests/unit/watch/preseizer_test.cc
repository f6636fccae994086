#include "userspace/watch/preseizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"

namespace rocattach {
namespace {

constexpr uint32_t kKeeper = 1'000'001, kOther = 1'000'002;  // of no process

Window WindowOf(uint32_t pid) {
  Window window;
  window.event.pid = window.event.tid = pid;
  return window;
}

class PreseizerTest : public testing::Test {
 protected:
  void SetUp() override {
    // No processor: there are no records.
    auto events = MmapEvents::OpenWith({.open = [](int, uint32_t) { return -1; },
                                        .online = [] { return std::vector<int>(); }});
    ASSERT_TRUE(events.ok()) << events.status();
    auto preseizer = Preseizer::Start(
        *std::move(events), [](pid_t) { return false; },
        [](const rocattach_event&) { return false; }, /*cache=*/nullptr,
        /*patience_msec=*/1000);
    ASSERT_TRUE(preseizer.ok()) << preseizer.status();
    preseizer_ = *std::move(preseizer);
  }
  // The thread of the process is kept, and as much waits for it as may.
  void FillQueueOf(uint32_t pid) {
    preseizer_->Serve(WindowOf(pid), {}, [this](const Window&) {
      kept_.Notify();
      go_on_.WaitForNotification();
      ++done_;
    });
    kept_.WaitForNotification();
    for (size_t i = 0; i < SeizedProcesses::kMostWaiting; ++i) {
      preseizer_->Serve(WindowOf(pid), {}, [this](const Window&) { ++done_; });
    }
  }

  absl::Notification kept_, go_on_;
  std::atomic<size_t> done_ = 0;
  std::unique_ptr<Preseizer> preseizer_;
};

// Whoever receives a window may read its process, which can keep it waiting.
TEST_F(PreseizerTest, AWindowIsRefusedWithoutALockThatOthersNeed) {
  FillQueueOf(kKeeper);
  absl::Notification refused, others_served;
  std::thread others([&] {
    refused.WaitForNotification();
    absl::Notification served;
    preseizer_->Serve(WindowOf(kOther), {}, [&](const Window&) { served.Notify(); });
    served.WaitForNotification();
    preseizer_->Forget(static_cast<pid_t>(kOther));
    EXPECT_EQ(preseizer_->Kept(absl::Hours(1)), 0u);
    others_served.Notify();
  });
  const std::thread::id this_thread = std::this_thread::get_id();
  preseizer_->Serve(WindowOf(kKeeper), {}, [&](const Window& window) {
    EXPECT_EQ(std::this_thread::get_id(), this_thread);
    EXPECT_EQ(window.event.pid, kKeeper);
    EXPECT_EQ(window.outcome.reason, AttachReason::kStopTimeout);
    refused.Notify();
    // With the lock held here, this would never come.
    others_served.WaitForNotification();
    ++done_;
  });
  others.join();
  EXPECT_EQ(done_, 1u) << "the others of the process still wait";
  go_on_.Notify();
  preseizer_->Stop();
  EXPECT_EQ(done_, SeizedProcesses::kMostWaiting + 2);
}

}  // namespace
}  // namespace rocattach
