// The account in a collector's memory, in which a target may have written anything.
#include "userspace/record/drain/collector_account.h"

#include <gtest/gtest.h>

#include <memory>

namespace rocattach {
namespace {

class CollectorAccountTest : public testing::Test {
 protected:
  CollectorAccount Read() const {
    const rocattach_ring* rings[] = {first_.get(), second_.get()};
    return ReadAccount(*control_, rings);
  }

  const std::unique_ptr<rocattach_control> control_ =
      std::make_unique<rocattach_control>();
  const std::unique_ptr<rocattach_ring> first_ = std::make_unique<rocattach_ring>();
  const std::unique_ptr<rocattach_ring> second_ = std::make_unique<rocattach_ring>();
};

TEST_F(CollectorAccountTest, IsTheSumOfTheRings) {
  first_->head = 10;
  second_->head = 5;
  first_->dispatches_seen = 7;
  second_->dispatches_seen = 3;
  first_->dispatches_dropped = 2;
  second_->copies_dropped = 1;
  second_->sampled_out = 4;
  control_->other_dropped = 6;
  control_->dictionary_dropped = 8;
  control_->hook_ns_total = 9;
  const CollectorAccount account = Read();
  EXPECT_EQ(account.produced, 15u);
  EXPECT_EQ(account.dispatches_seen, 10u);
  EXPECT_EQ(account.ring_dropped, 3u);
  EXPECT_EQ(account.sampled_out, 4u);
  EXPECT_EQ(account.other_dropped, 6u);
  EXPECT_EQ(account.dictionary_dropped, 8u);
  EXPECT_EQ(account.own_ns, 9u);
  EXPECT_EQ(account.delivered, 0u) << "only the reader knows";
}

TEST_F(CollectorAccountTest, SumsSaturate) {
  first_->dispatches_seen = UINT64_MAX;
  second_->dispatches_seen = 2;
  EXPECT_EQ(Read().dispatches_seen, UINT64_MAX);
}

// One thread may publish an operation that another has captured.
TEST_F(CollectorAccountTest, InFlightIsTheSumOfTheRingsDifferences) {
  first_->inflight = 5;
  second_->inflight = -3;
  EXPECT_EQ(Read().inflight, 2u);
  second_->inflight = -6;
  EXPECT_EQ(Read().inflight, 0u);
}

TEST(CollectorAccountDifferenceTest, IsNeverBelowZero) {
  CollectorAccount before, now;
  before.dispatches_seen = 10;
  before.api_calls_seen = 10;
  now.dispatches_seen = 25;
  now.api_calls_seen = 3;
  const CollectorAccount since = now.Since(before);
  EXPECT_EQ(since.dispatches_seen, 15u);
  EXPECT_EQ(since.api_calls_seen, 0u);
}

TEST(CollectorAccountDifferenceTest, StatesAreTheCurrentOnes) {
  CollectorAccount before, now;
  before.inflight = before.dictionary_dropped = before.corrupt_rings = 4;
  now.inflight = now.dictionary_dropped = now.corrupt_rings = 5;
  const CollectorAccount since = now.Since(before);
  EXPECT_EQ(since.inflight, 5u);
  EXPECT_EQ(since.dictionary_dropped, 5u);
  EXPECT_EQ(since.corrupt_rings, 5u);
}

}  // namespace
}  // namespace rocattach
