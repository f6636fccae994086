#include "userspace/watch/windows/preseizer.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "tests/await.h"

namespace rocattach {
namespace {

constexpr uint32_t kKeeper = 1'000'001,
                   kOtherProcess = 1'000'002;  // made-up process IDs

Window WindowOf(uint32_t pid) {
  Window window;
  window.event.pid = window.event.tid = pid;
  return window;
}

class PreseizerTest : public testing::Test {
 protected:
  void SetUp() override {
    // There are no processors, and therefore no records.
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
  // Keeps the thread of the process busy, and fills the queue that waits for it.
  void FillQueueOf(uint32_t pid) {
    preseizer_->Serve(WindowOf(pid), {}, [this](const Window&) {
      kept_.Notify();
      go_on_.WaitForNotification();
      ++done_;
    });
    testing_support::Await(kept_, "the first window");
    for (size_t i = 0; i < SeizedProcesses::kMostWaiting; ++i) {
      preseizer_->Serve(WindowOf(pid), {}, [this](const Window&) { ++done_; });
    }
  }

  absl::Notification kept_, go_on_;
  std::atomic<size_t> done_ = 0;
  std::unique_ptr<Preseizer> preseizer_;
};

// The receiver of a window may read its process, which can make the receiver wait.
TEST_F(PreseizerTest, AWindowIsRefusedWithoutALockThatOthersNeed) {
  FillQueueOf(kKeeper);
  absl::Notification refused, others_served;
  std::thread others([&] {
    testing_support::Await(refused, "the refusal of a window");
    absl::Notification served;
    preseizer_->Serve(WindowOf(kOtherProcess), {},
                      [&](const Window&) { served.Notify(); });
    testing_support::Await(served, "the other process's window");
    preseizer_->Forget(ProcessIdOf(WindowOf(kOtherProcess).event));
    EXPECT_EQ(preseizer_->Kept(absl::Hours(1)), 0u);
    others_served.Notify();
  });
  const std::thread::id this_thread = std::this_thread::get_id();
  preseizer_->Serve(WindowOf(kKeeper), {}, [&](const Window& window) {
    EXPECT_EQ(std::this_thread::get_id(), this_thread);
    EXPECT_EQ(window.event.pid, kKeeper);
    EXPECT_EQ(window.outcome.reason, AttachReason::kStopTimeout);
    refused.Notify();
    // If the lock were held here, this notification would never come.
    testing_support::Await(others_served, "the others to be served");
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
