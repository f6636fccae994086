#include "userspace/record/sessions/session_offers.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/unit/record/target_fixture.h"

namespace rocattach {
namespace {

constexpr uint64_t kOfferNs = 9'000'000'000;
constexpr uint64_t kWaitNs = 200'000'000;

struct Offered : TargetObserver {
  std::vector<std::pair<ProcessId, bool>> ready;  // and true if it waits
  std::vector<ProcessId> gone, missed;
  void OnTargetReady(ProcessId target, TargetDescription, bool waiting) override {
    ready.emplace_back(target, waiting);
  }
  void OnTargetGone(ProcessId target) override { gone.push_back(target); }
  void OnTargetMissed(ProcessId target) override { missed.push_back(target); }
};

class SessionOffersTest : public TargetTest {
 protected:
  void SetUp() override {
    TargetTest::SetUp();
    target_ = NewTarget(Attached());
    auto memory = CollectorMemory::MapFd(fake_.fd(), FakeCollector::Config());
    ASSERT_TRUE(memory.ok()) << memory.status();
    target_->SetMemory(*std::move(memory), true, /*acknowledged=*/false);
  }
  // From now on the target can be described.
  void Describe() {
    fake_.AddGpu(1, "gfx90a", "GPU-0123456789abcdef");
    __atomic_store_n(&fake_.control()->backend, ROCATTACH_BACKEND_SDK,
                     __ATOMIC_RELEASE);
    target_->Drain(kOfferNs);
  }

  FakeCollector fake_;
  std::unique_ptr<Target> target_;
  Offered offered_;
};

TEST_F(SessionOffersTest, WithoutSessionsNothingWaits) {
  SessionOffers offers(nullptr, kWaitNs);
  EXPECT_FALSE(offers.Update(target_.get(), kOfferNs));
  EXPECT_TRUE(target_->acknowledged());
  offers.Withdraw(target_->id());
}

TEST_F(SessionOffersTest, OffersATargetOnceWhenItCanBeDescribed) {
  SessionOffers offers(&offered_, kWaitNs);
  offers.Update(target_.get(), kOfferNs);
  EXPECT_TRUE(offered_.ready.empty());
  offers.Withdraw(target_->id());
  EXPECT_TRUE(offered_.gone.empty()) << "nobody knows of it";
  Describe();
  EXPECT_TRUE(offers.Update(target_.get(), kOfferNs));
  EXPECT_TRUE(offers.Update(target_.get(), kOfferNs));
  ASSERT_EQ(offered_.ready.size(), 1u);
  EXPECT_EQ(offered_.ready[0].first, target_->id());
  EXPECT_TRUE(offered_.ready[0].second);
  offers.Withdraw(target_->id());
  offers.Withdraw(target_->id());
  ASSERT_EQ(offered_.gone.size(), 1u);
  EXPECT_EQ(offered_.gone[0], target_->id());
}

// After a late attach a process does not wait: it may end at once.
TEST_F(SessionOffersTest, ATargetThatEndsBeforeItIsOfferedIsMissed) {
  SessionOffers offers(&offered_, kWaitNs);
  offers.ReportIfMissed(*target_);
  EXPECT_TRUE(offered_.missed.empty()) << "it has not used the runtime";
  Describe();
  target_->Settle(Verdict::kAttached, AttachReason::kNone, "");
  offers.ReportIfMissed(*target_);
  ASSERT_EQ(offered_.missed.size(), 1u);
  EXPECT_EQ(offered_.missed[0], target_->id());
  offers.Update(target_.get(), kOfferNs);
  offers.ReportIfMissed(*target_);
  EXPECT_EQ(offered_.missed.size(), 1u) << "it has been offered by now";
}

TEST_F(SessionOffersTest, WithoutSessionsNothingIsMissed) {
  SessionOffers offers(nullptr, kWaitNs);
  Describe();
  offers.ReportIfMissed(*target_);
  EXPECT_TRUE(offered_.missed.empty());
}

// Loading rocprofiler-sdk may take longer than the process is to wait.
TEST_F(SessionOffersTest, TheWaitBeginsWithTheOffer) {
  SessionOffers offers(&offered_, kWaitNs);
  offers.Update(target_.get(), kWindowNs + kWaitNs + 1);
  EXPECT_FALSE(target_->acknowledged()) << "it has not been offered";
  Describe();
  EXPECT_TRUE(offers.Update(target_.get(), kOfferNs));
  EXPECT_TRUE(offers.Update(target_.get(), kOfferNs + kWaitNs));
  EXPECT_FALSE(target_->acknowledged());
  EXPECT_FALSE(offers.Update(target_.get(), kOfferNs + kWaitNs + 1));
  EXPECT_TRUE(target_->acknowledged());
}

TEST_F(SessionOffersTest, ASessionEndsTheWait) {
  SessionOffers offers(&offered_, kWaitNs);
  Describe();
  EXPECT_TRUE(offers.Update(target_.get(), kOfferNs));
  target_->AcknowledgeMapped();
  EXPECT_FALSE(offers.Update(target_.get(), kOfferNs));
}

}  // namespace
}  // namespace rocattach
