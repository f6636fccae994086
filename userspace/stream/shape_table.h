// Numbers the distinct shapes of a batch: an open-addressing hash table over keys of a
// few words.
#ifndef ROCATTACH_USERSPACE_STREAM_SHAPE_TABLE_H_
#define ROCATTACH_USERSPACE_STREAM_SHAPE_TABLE_H_

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/numeric/int128.h"

namespace rocattach {

// Returns a random number, for the hashes of one table.
uint64_t ShapeSeed();

template <size_t kWords>
class ShapeTable {
 public:
  using Key = std::array<uint64_t, kWords>;

  ShapeTable() : slots_(kMinSlots, kEmpty) {}

  const std::vector<Key>& keys() const { return keys_; }

  // Returns the number of `key`: a new one if it has not been seen in this batch.
  uint32_t Index(const Key& key) {
    // The most common case is the same kernel again, the next a repeating sequence,
    // such as the counters of a pass, dispatch after dispatch.
    if (last_ < keys_.size()) {
      if (Same(keys_[last_], key)) return last_;
      const uint32_t expected = followed_by_[last_];
      if (Same(keys_[expected], key)) return last_ = expected;
    }
    const uint32_t before = last_;
    const uint32_t index = Find(key);
    if (before < followed_by_.size()) followed_by_[before] = index;
    return last_ = index;
  }

  void Clear() {
    if (!keys_.empty()) {
      // A batch of many shapes must not make every later one pay for clearing its
      // table.
      if (slots_.size() > kMaxKeptSlots) slots_.resize(kMinSlots);
      std::fill(slots_.begin(), slots_.end(), kEmpty);
    }
    keys_.clear();
    followed_by_.clear();
    last_ = 0;
  }

  // A target controls the contents of its records. It must not be able to choose shapes
  // that all have the same hash: so the hash depends on a secret number, and each step
  // mixes all bits with all others.
  static size_t HashOf(const Key& key, uint64_t seed) {
    uint64_t hash = seed;
    for (uint64_t word : key) {
      const auto product = absl::uint128(hash ^ word) * 0x9e3779b97f4a7c15;
      hash = absl::Uint128Low64(product) ^ absl::Uint128High64(product) ^ seed;
    }
    return static_cast<size_t>(hash ^ (hash >> 32));
  }

 private:
  static constexpr uint32_t kEmpty = ~0u;
  static constexpr size_t kMinSlots = 64;
  static constexpr size_t kMaxKeptSlots = 4096;

  // For so few words, this is faster than the memcmp() call that == makes.
  static bool Same(const Key& a, const Key& b) {
    return Same(a, b, std::make_index_sequence<kWords>());
  }
  template <size_t... kWord>
  static bool Same(const Key& a, const Key& b, std::index_sequence<kWord...>) {
    return ((a[kWord] ^ b[kWord]) | ...) == 0;
  }

  uint32_t Find(const Key& key) {
    size_t mask = slots_.size() - 1;
    size_t at = Hash(key) & mask;
    while (slots_[at] != kEmpty && !Same(keys_[slots_[at]], key)) at = (at + 1) & mask;
    if (slots_[at] != kEmpty) return slots_[at];
    const auto index = static_cast<uint32_t>(keys_.size());
    slots_[at] = index;
    keys_.push_back(key);
    followed_by_.push_back(index);
    if (keys_.size() * 2 > slots_.size()) Grow();
    return index;
  }

  size_t Hash(const Key& key) const { return HashOf(key, seed_); }

  void Grow() {
    std::vector<uint32_t> slots(slots_.size() * 2, kEmpty);
    size_t mask = slots.size() - 1;
    for (uint32_t index = 0; index < keys_.size(); ++index) {
      size_t at = Hash(keys_[index]) & mask;
      while (slots[at] != kEmpty) at = (at + 1) & mask;
      slots[at] = index;
    }
    slots_ = std::move(slots);
  }

  const uint64_t seed_ = ShapeSeed();
  std::vector<Key> keys_;
  std::vector<uint32_t> followed_by_;  // by key: the one that followed it last time
  std::vector<uint32_t> slots_;
  uint32_t last_ = 0;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_SHAPE_TABLE_H_
