// Values are copied if their slots are valid.
#include "userspace/record/drain/value_slots.h"

#include <gtest/gtest.h>
#include <string.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/record/collector_bytes.h"

namespace rocattach {
namespace {

constexpr size_t kCounters = 300;

// The bytes themselves: equal values may have different bytes.
auto BytesOf(const rocattach_counter_value& value) {
  return std::bit_cast<std::array<uint8_t, sizeof(value)>>(value);
}

// Valid slots with `values` values.
std::vector<rocattach_values> SlotsOf(size_t values) {
  std::vector<rocattach_values> slots((values + 1) / 2);
  for (size_t i = 0; i < slots.size(); ++i) {
    rocattach_values& slot = slots[i];
    slot = {};
    slot.kind = ROCATTACH_RECORD_VALUES;
    slot.slots = static_cast<uint16_t>(slots.size());
    slot.slot = static_cast<uint16_t>(i);
    slot.count = static_cast<uint16_t>(std::min<size_t>(2, values - 2 * i));
    slot.correlation_id = 0x123456789abcdef0;
    slot.plan_generation = 6;
    slot.agent_id = 3;
    slot.of = ROCATTACH_RECORD_DISPATCH;
    for (size_t k = 0; k < 2; ++k) {
      slot.value[k] = {static_cast<uint16_t>((2 * i + k) % kCounters),
                       0x7777,
                       static_cast<uint32_t>(i + k + 1),
                       1.5 * static_cast<double>(i),
                       static_cast<double>(k),
                       static_cast<double>(i + k)};
    }
  }
  return slots;
}

std::vector<RecordSlot> Raw(const std::vector<rocattach_values>& slots) {
  std::vector<RecordSlot> raw;
  for (const rocattach_values& slot : slots) raw.push_back(SlotOf(slot));
  return raw;
}

// Reference implementation: true if all slots are valid.
bool AreRight(const std::vector<rocattach_values>& slots) {
  for (size_t i = 0; i < slots.size(); ++i) {
    const rocattach_values& slot = slots[i];
    const bool last = i + 1 == slots.size();
    if (slot.kind != slots[0].kind || slot.slots != slots[0].slots || slot.slot != i ||
        slot.correlation_id != slots[0].correlation_id ||
        slot.plan_generation != slots[0].plan_generation ||
        slot.pass != slots[0].pass || slot.agent_id != slots[0].agent_id ||
        slot.of != slots[0].of || slot.instance_slots != slots[0].instance_slots ||
        slot.count == 0 || slot.count > 2 || (!last && slot.count != 2)) {
      return false;
    }
    for (size_t k = 0; k < slot.count; ++k) {
      if (slot.value[k].counter >= kCounters || slot.value[k].instances == 0) {
        return false;
      }
    }
  }
  return true;
}

void ExpectCopied(const std::vector<rocattach_values>& slots) {
  const std::vector<RecordSlot> raw = Raw(slots);
  const bool right = AreRight(slots);
  std::vector<rocattach_counter_value> to(2 * slots.size());
  const size_t copied = CopyValues(ValueSlotHead(raw[0]), raw, kCounters, to.data());
  if (!right) {
    ASSERT_EQ(copied, 0u);
    return;
  }
  ASSERT_EQ(copied, 2 * (slots.size() - 1) + slots.back().count);
  for (size_t i = 0; i < copied; ++i) {
    ASSERT_EQ(BytesOf(to[i]), BytesOf(slots[i / 2].value[i % 2])) << i;
  }
}

TEST(ValueSlots, AnyNumberOfValues) {
  for (size_t values = 1; values <= 40; ++values) {
    ASSERT_TRUE(AreRight(SlotsOf(values)));
    ExpectCopied(SlotsOf(values));
  }
}

// The second value of a slot that has only one is not checked.
TEST(ValueSlots, AMissingSecondValueIsNotChecked) {
  std::vector<rocattach_values> slots = SlotsOf(5);
  slots[2].value[1].counter = 0xffff;
  slots[2].value[1].instances = 0;
  ASSERT_TRUE(AreRight(slots));
  ExpectCopied(slots);
}

TEST(ValueSlots, WithoutCountersNoValueIsValid) {
  const std::vector<RecordSlot> raw = Raw(SlotsOf(4));
  rocattach_counter_value to[4];
  EXPECT_EQ(CopyValues(ValueSlotHead(raw[0]), raw, 0, to), 0u);
}

TEST(ValueSlots, TheLastCounterIsValidAndTheNextIsNot) {
  for (const uint16_t counter : {299, 300, 0x7fff, 0x8000, 0xffff}) {
    for (size_t place = 0; place < 4; ++place) {
      std::vector<rocattach_values> slots = SlotsOf(4);
      slots[place / 2].value[place % 2].counter = counter;
      ASSERT_EQ(AreRight(slots), counter < kCounters);
      ExpectCopied(slots);
    }
  }
}

// Flips one bit of a slot: of its head, a counter, a number of instances or a value.
TEST(ValueSlots, EveryBitCounts) {
  size_t wrong = 0;
  for (const size_t values : {1, 2, 3, 4, 8, 9}) {
    const std::vector<rocattach_values> slots = SlotsOf(values);
    for (size_t slot = 0; slot < slots.size(); ++slot) {
      for (size_t bit = 0; bit < 8 * sizeof(rocattach_values); ++bit) {
        std::vector<rocattach_values> changed = slots;
        reinterpret_cast<uint8_t*>(&changed[slot])[bit / 8] ^= 1 << (bit % 8);
        wrong += AreRight(changed) ? 0 : 1;
        ExpectCopied(changed);
      }
    }
  }
  EXPECT_GT(wrong, 1000u);
}

#if !defined(__SANITIZE_THREAD__)
// The slots may be in the memory of a hostile process that changes them meanwhile: the
// values that were checked are those that were copied.
TEST(ValueSlots, TheCheckedValuesAreTheCopiedValues) {
  const std::vector<rocattach_values> slots = SlotsOf(8);
  std::vector<RecordSlot> raw = Raw(slots);
  std::atomic<bool> stop = false;
  std::thread deceiver([&] {
    std::minstd_rand random(7);
    while (!stop.load(std::memory_order_relaxed)) {
      auto* const value =
          reinterpret_cast<volatile rocattach_values*>(raw[random() % raw.size()].bytes)
              ->value;
      const size_t which = random() % 2;
      const uint16_t counter = value[which].counter;
      const uint32_t instances = value[which].instances;
      value[which].counter = 0xffff;
      value[which].instances = 0;
      for (unsigned wait = random() % 64; wait > 0; --wait) __builtin_ia32_pause();
      value[which].counter = counter;
      value[which].instances = instances;
      for (unsigned wait = random() % 64; wait > 0; --wait) __builtin_ia32_pause();
    }
  });
  size_t taken = 0, refused = 0;
  for (size_t round = 0; round < 2'000'000 && (taken < 20'000 || refused < 20'000);
       ++round) {
    rocattach_counter_value to[8];
    const size_t copied = CopyValues(ValueSlotHead(raw[0]), raw, kCounters, to);
    ++(copied == 0 ? refused : taken);
    for (size_t i = 0; i < copied; ++i) {
      if (to[i].counter >= kCounters || to[i].instances == 0) {
        ADD_FAILURE() << "copied without a check";
        round = 2'000'000;
      }
    }
  }
  stop = true;
  deceiver.join();
  EXPECT_GT(taken, 0u);
}
#endif

}  // namespace
}  // namespace rocattach
