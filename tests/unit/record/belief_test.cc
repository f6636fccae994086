#include "userspace/record/drain/belief.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace rocattach {
namespace {

Evidence Honest() {
  Evidence evidence;
  evidence.claims.dispatches_seen = 1'000'000;
  evidence.claims.copies_seen = 100;
  evidence.claims.ring_dropped = 400'000;
  evidence.taken = 600'000;
  evidence.lifetime_ns = 5'000'000'000;
  evidence.room = 1000;
  return evidence;
}

TEST(BeliefTest, HonestAccountsAreBelieved) {
  EXPECT_EQ(WhyNotBelievable({}), "");
  EXPECT_EQ(WhyNotBelievable(Honest()), "");
  Evidence flawed = Honest();  // a queue whose entry did not fit the dictionary
  flawed.invalid = 900;
  flawed.taken -= 900;
  EXPECT_EQ(WhyNotBelievable(flawed), "");
  flawed = Honest();
  flawed.invalid = 30'000;
  flawed.taken -= 30'000;
  EXPECT_EQ(WhyNotBelievable(flawed), "") << "one in twenty";
  flawed = Honest();  // killed: operations were seen in a ring that was not read
  flawed.all_rings = false;
  flawed.taken += 101;
  EXPECT_EQ(WhyNotBelievable(flawed), "");
}

TEST(BeliefTest, ImpossibleAccountsAreNotBelieved) {
  auto why = [](auto change) {
    Evidence evidence = Honest();
    change(&evidence);
    return WhyNotBelievable(evidence);
  };
  EXPECT_NE(why([](Evidence* e) { e->claims.corrupt_rings = 1; }), "");
  EXPECT_NE(why([](Evidence* e) { e->dictionary_ok = false; }), "");
  EXPECT_NE(why([](Evidence* e) {
              e->invalid = 100'000;
              e->taken -= 100'000;
            }),
            "");
  EXPECT_NE(why([](Evidence* e) { e->nonsense = 100'000; }), "");
  EXPECT_NE(why([](Evidence* e) { e->taken += 101; }), "") << "more than it has seen";
  EXPECT_NE(why([](Evidence* e) { e->taken -= 70'000; }), "") << "70,000 are nowhere";
  for (uint64_t claim : {UINT64_MAX, UINT64_MAX / 2, uint64_t{1} << 62}) {
    EXPECT_NE(why([&](Evidence* e) { e->claims.dispatches_seen = claim; }), "");
    EXPECT_NE(why([&](Evidence* e) {
                e->claims.dispatches_seen = claim;
                e->claims.ring_dropped = claim;
              }),
              "");
    EXPECT_NE(why([&](Evidence* e) { e->claims.packets_unseen = claim; }), "");
    EXPECT_NE(why([&](Evidence* e) { e->claims.samples_dropped = claim; }), "");
  }
}

}  // namespace
}  // namespace rocattach
