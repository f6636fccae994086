#include "userspace/stream/shape_table.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace rocattach {
namespace {

using Table = ShapeTable<4>;

TEST(ShapeTable, NumbersKeysInOrderOfAppearance) {
  Table table;
  EXPECT_EQ(table.Index({1, 2, 3, 4}), 0u);
  EXPECT_EQ(table.Index({1, 2, 3, 5}), 1u);
  EXPECT_EQ(table.Index({1, 2, 3, 4}), 0u);
  // Each word counts.
  EXPECT_EQ(table.Index({0, 2, 3, 4}), 2u);
  EXPECT_EQ(table.Index({1, 0, 3, 4}), 3u);
  EXPECT_EQ(table.Index({1, 2, 0, 4}), 4u);
  EXPECT_EQ(table.keys().size(), 5u);
  table.Clear();
  EXPECT_EQ(table.Index({1, 2, 0, 4}), 0u);
}

// The keys were made for a hash without a seed, of which each step can be inverted:
// there, all of them had the same value.
TEST(ShapeTable, ChoosingTheKeysDoesNotDetermineTheHashes) {
  constexpr size_t kKeys = 2000, kSlots = 4096;
  const auto step = [](uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15;
    return hash ^ hash >> 29;
  };
  std::set<size_t> slots;
  const uint64_t seed = ShapeSeed();
  for (uint64_t i = 0; i < kKeys; ++i) {
    const Table::Key key = {1, 2, i, step(step(step(0, 1), 2), i)};
    slots.insert(Table::HashOf(key, seed) % kSlots);
    ASSERT_EQ(step(step(step(step(0, key[0]), key[1]), key[2]), key[3]), 0u);
  }
  // 1,580 slots would be used if the hashes were random.
  EXPECT_GT(slots.size(), kKeys / 2);
  EXPECT_NE(ShapeSeed(), seed);
}

// Rounds that repeat, that change in the middle, and single keys in between: a wrong
// prediction of the next key must never be used.
TEST(ShapeTable, MatchesAMapForRandomSequencesOfKeys) {
  std::mt19937_64 random(7);
  Table table;
  for (int batch = 0; batch < 20; ++batch) {
    std::map<Table::Key, uint32_t> expected;
    for (int round = 0; round < 400; ++round) {
      const uint64_t pass = random() % 3, kernel = random() % (1 + batch * 10);
      const uint64_t counters = random() % 9;
      for (uint64_t counter = 0; counter < counters; ++counter) {
        const Table::Key key = {1, kernel << 32, counter | pass << 16, random() % 2};
        const auto number = static_cast<uint32_t>(expected.size());
        ASSERT_EQ(table.Index(key), expected.try_emplace(key, number).first->second);
      }
    }
    ASSERT_EQ(table.keys().size(), expected.size());
    for (const auto& [key, number] : expected) EXPECT_EQ(table.keys()[number], key);
    table.Clear();
  }
}

}  // namespace
}  // namespace rocattach
