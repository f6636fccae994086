// What is computed several values at a time is what the plain functions say, or refused.
#include "userspace/stream/whole_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "userspace/base/cpu_features.h"
#include "userspace/stream/counter_numbers.h"
#include "userspace/stream/packed_column.h"

namespace rocattach {
namespace {

using Value = rocattach_counter_value;

// What one kind of processor runs.
struct Kernels {
  const char* name;
  decltype(&TakeWholeValues) take;
  decltype(&AreEqual) are_equal;
  decltype(&TakeDifferences) differences;
};

class WholeValues : public testing::TestWithParam<Kernels> {
 protected:
  void SetUp() override {
    if (GetParam().name == std::string("Avx2") && !kHasAvx2) {
      GTEST_SKIP() << "this processor has no AVX2";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(
    Kinds, WholeValues,
    testing::Values(
        Kernels{"Chosen", TakeWholeValues, AreEqual, TakeDifferences},
        Kernels{"Sse2", sse2::TakeWholeValues, sse2::AreEqual, sse2::TakeDifferences},
        Kernels{"Avx2", avx2::TakeWholeValues, avx2::AreEqual, avx2::TakeDifferences}),
    [](const auto& one) { return std::string(one.param.name); });

// The arguments of TakeWholeValues(), for these values.
struct Arguments {
  explicit Arguments(const std::vector<Value>& given) : values(given) {
    for (const Value& value : values) {
      uint64_t tag;
      memcpy(&tag, &value, sizeof(tag));
      tags.push_back(tag & kValueTagBits);
      per_instance.push_back(PerInstance(value.instances));
    }
    numbers.resize(3 * (values.size() + 1));
  }
  bool Take(const Kernels& kernels) {
    return kernels.take(values, tags.data(), per_instance.data(), columns());
  }
  ValueColumns columns() { return {numbers.data(), values.size() + 1}; }

  std::vector<Value> values;
  std::vector<uint64_t> tags;
  std::vector<double> per_instance;
  std::vector<uint64_t> numbers;
};

// Numbers where something changes: signs, halves, powers of two and their neighbours.
std::vector<double> Numbers() {
  std::vector<double> numbers = {0.0, -0.0, 0.5, 1.5, 2.5, 1e300, 1e-300};
  for (int power : {1, 2, 5, 31, 32, 33, 50, 51, 52, 53, 54, 62, 63, 64}) {
    const double number = std::ldexp(1, power);
    for (double more : {-1.0, -0.5, 0.0, 0.5, 1.0}) numbers.push_back(number + more);
    numbers.push_back(std::nextafter(number, 0));
    numbers.push_back(std::nextafter(number, 2 * number));
  }
  const size_t count = numbers.size();
  for (size_t i = 0; i < count; ++i) numbers.push_back(-numbers[i]);
  using Limits = std::numeric_limits<double>;
  for (double odd : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(),
                     -Limits::quiet_NaN(), Limits::denorm_min(), Limits::max()}) {
    numbers.push_back(odd);
  }
  return numbers;
}

bool IsQuick(double number) {
  return IsWhole(number) && number >= 0 && number < std::ldexp(1, 51);
}

void ExpectAsPlain(Arguments* taken) {
  const ValueColumns columns = taken->columns();
  for (size_t i = 0; i < taken->values.size(); ++i) {
    const Value& value = taken->values[i];
    const uint64_t middle = MiddleOf(value.sum, taken->per_instance[i], true);
    ASSERT_EQ(columns.sum[i], NumberOf(value.sum, true)) << value.sum;
    ASSERT_EQ(columns.below()[i], middle - NumberOf(value.minimum, true)) << value.sum;
    ASSERT_EQ(columns.above()[i], NumberOf(value.maximum, true) - middle) << value.sum;
  }
}

TEST_P(WholeValues, WhatIsTakenIsExact) {
  size_t taken = 0;
  for (double sum : Numbers()) {
    for (double end : Numbers()) {
      for (uint32_t instances : {1u, 3u, 32u, 0xffffffffu}) {
        // In each place of a pair and of four, and alone.
        const Value low = {1, 0, instances, sum, end, 7}, plain = {2, 0, 5, 3, 1, 2};
        const Value high = {1, 0, instances, sum, 0, end};
        for (const std::vector<Value>& values :
             {std::vector<Value>{low}, std::vector<Value>{plain, high},
              std::vector<Value>{low, plain, plain, high},
              std::vector<Value>{plain, high, low, plain, low}}) {
          Arguments arguments(values);
          const bool ok = arguments.Take(GetParam());
          ASSERT_EQ(ok, IsQuick(sum) && IsQuick(end)) << sum << " " << end;
          if (!ok) continue;
          ++taken;
          ExpectAsPlain(&arguments);
        }
      }
    }
  }
  EXPECT_GT(taken, 1000u);
}

TEST_P(WholeValues, AnotherCounterOrNumberOfInstancesDoesNotFit) {
  for (size_t count : {1u, 2u, 3u, 4u, 5u, 7u, 8u}) {
    for (size_t other = 0; other < count; ++other) {
      Arguments arguments(std::vector<Value>(count, {4, 0, 32, 64, 1, 3}));
      ASSERT_TRUE(arguments.Take(GetParam()));
      ExpectAsPlain(&arguments);
      arguments.values[other].pad = 7;  // not part of it
      EXPECT_TRUE(arguments.Take(GetParam()));
      arguments.values[other].counter = 5;
      EXPECT_FALSE(arguments.Take(GetParam()));
      arguments.values[other].counter = 4;
      arguments.values[other].instances = 31;
      EXPECT_FALSE(arguments.Take(GetParam()));
    }
  }
}

TEST_P(WholeValues, EqualNumbersAreFound) {
  for (size_t count : {0u, 1u, 2u, 4u, 5u, 8u}) {
    const std::vector<uint64_t> numbers(count, 7);
    EXPECT_TRUE(GetParam().are_equal(numbers.data(), numbers.data(), count));
    for (size_t i = 0; i < count; ++i) {
      for (uint64_t other : {uint64_t{6}, uint64_t{7} | uint64_t{1} << 63}) {
        std::vector<uint64_t> last = numbers;
        last[i] = other;
        EXPECT_FALSE(GetParam().are_equal(numbers.data(), last.data(), count)) << i;
      }
    }
  }
}

TEST_P(WholeValues, Differences) {
  const std::vector<uint64_t> numbers = {0,
                                         1,
                                         ~uint64_t{0},
                                         uint64_t{1} << 63,
                                         (uint64_t{1} << 63) - 1,
                                         5,
                                         uint64_t{1} << 32};
  for (size_t count = 0; count <= numbers.size(); ++count) {
    for (uint64_t before : numbers) {
      std::vector<uint64_t> now(numbers.begin(),
                                numbers.begin() + static_cast<ptrdiff_t>(count));
      std::vector<uint64_t> last(count, before);
      const uint64_t any = GetParam().differences(now.data(), last.data(), count);
      uint64_t expected_any = 0;
      for (size_t i = 0; i < count; ++i) {
        const uint64_t expected = ZigZag(numbers[i] - before);
        EXPECT_EQ(now[i], expected);
        EXPECT_EQ(last[i], numbers[i]);
        expected_any |= expected;
      }
      EXPECT_EQ(any, expected_any);
    }
  }
}

}  // namespace
}  // namespace rocattach
