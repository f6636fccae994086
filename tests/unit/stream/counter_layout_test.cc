// The two layouts of v1::CounterBatch: what is written now, and what was written
// before.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "schemas/records.pb.h"
#include "userspace/stream/counter_batch.h"

namespace rocattach {
namespace {

constexpr size_t kLayoutBatchBytes = 1 << 20;
constexpr uint32_t kCounters = 4;

v1::CounterBatch Parsed(CounterBatchEncoder* encoder) {
  std::string payload;
  encoder->EncodeTo(&payload);
  v1::CounterBatch batch;
  EXPECT_TRUE(batch.ParseFromString(payload));
  return batch;
}

CounterOperation Operation(uint64_t number) {
  CounterOperation operation;
  operation.session = 3;
  operation.operation = number;
  operation.plan = 2;
  operation.kernel_id = 9;
  operation.agent_id = 1;
  operation.values = kCounters;
  return operation;
}

// Dispatches of four counters, of which the first has one instance.
std::vector<rocattach_counter_value> Values(size_t dispatches, bool fractions) {
  std::vector<rocattach_counter_value> values;
  for (size_t i = 0; i < dispatches; ++i) {
    for (uint16_t counter = 0; counter < kCounters; ++counter) {
      const uint32_t instances = counter == 0 ? 1 : 16;
      double sum = static_cast<double>(4096 * counter + i % 23);
      // Not in every dispatch, and of one counter after another.
      if (fractions && i % 3 != 0 && counter == i / 3 % kCounters) sum += 0.25;
      const double mean = std::floor(sum / instances);
      values.push_back({counter, 0, instances, sum, instances == 1 ? sum : mean - 2,
                        instances == 1 ? sum : mean + 3});
    }
  }
  return values;
}

std::vector<CounterRecord> Records(absl::Span<const rocattach_counter_value> values) {
  std::vector<CounterRecord> records;
  for (size_t i = 0; i < values.size(); ++i) {
    const CounterOperation operation = Operation(i / kCounters + 1);
    CounterRecord record;
    record.session = operation.session;
    record.operation = operation.operation;
    record.plan = operation.plan;
    record.kernel_id = operation.kernel_id;
    record.agent_id = operation.agent_id;
    record.counter = values[i].counter;
    record.instances = values[i].instances;
    record.sum = values[i].sum;
    record.minimum = values[i].minimum;
    record.maximum = values[i].maximum;
    records.push_back(record);
  }
  return records;
}

std::string EncodeOperations(const std::vector<rocattach_counter_value>& values) {
  std::vector<CounterOperation> operations;
  for (size_t i = 0; i < values.size() / kCounters; ++i) {
    operations.push_back(Operation(i + 1));
  }
  CounterBatchEncoder encoder(kLayoutBatchBytes);
  absl::Span<const rocattach_counter_value> left = values;
  EXPECT_EQ(encoder.AppendOperations(operations, &left), operations.size());
  EXPECT_TRUE(left.empty());
  EXPECT_EQ(encoder.operations(), operations.size());
  std::string payload;
  encoder.EncodeTo(&payload);
  return payload;
}

TEST(CounterLayout, OperationsAndTheirRecordsAreTheSame) {
  for (bool fractions : {false, true}) {
    const std::vector<rocattach_counter_value> values = Values(500, fractions);
    CounterBatchEncoder encoder(kLayoutBatchBytes);
    ASSERT_EQ(encoder.Append(Records(values)), values.size());
    std::string payload;
    encoder.EncodeTo(&payload);
    EXPECT_EQ(payload, EncodeOperations(values));
    std::vector<CounterRecord> decoded;
    ASSERT_TRUE(DecodeCounterBatch(payload, &decoded).ok());
    ASSERT_EQ(decoded.size(), values.size());
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_EQ(decoded[i].operation, i / kCounters + 1);
      ASSERT_EQ(decoded[i].kernel_id, 9u);
      ASSERT_EQ(decoded[i].counter, values[i].counter);
      ASSERT_EQ(decoded[i].sum, values[i].sum);
      ASSERT_EQ(decoded[i].minimum, values[i].minimum);
      ASSERT_EQ(decoded[i].maximum, values[i].maximum);
    }
  }
}

TEST(CounterLayout, AFullBatchKeepsTheRest) {
  const std::vector<rocattach_counter_value> values = Values(20'000, false);
  std::vector<CounterOperation> operations;
  for (uint64_t i = 1; i <= 20'000; ++i) operations.push_back(Operation(i));
  CounterBatchEncoder encoder(kLayoutBatchBytes);
  absl::Span<const rocattach_counter_value> left = values;
  const size_t taken = encoder.AppendOperations(operations, &left);
  EXPECT_LT(taken, operations.size());
  EXPECT_TRUE(encoder.full());
  EXPECT_EQ(left.size(), (operations.size() - taken) * kCounters);
  EXPECT_EQ(Parsed(&encoder).records(), taken * kCounters);
  EXPECT_EQ(encoder.count(), 0u);
}

// Minimum and maximum keep their distance from the mean, or are the only value.
TEST(CounterLayout, ValuesThatFollowFromTheSumUseNoBytes) {
  const std::vector<rocattach_counter_value> values = Values(1000, false);
  const std::string payload = EncodeOperations(values);
  // A sum of one byte or two; a pattern, a dispatch; and two bytes that say that
  // minimum and maximum are where they were.
  EXPECT_LT(static_cast<double>(payload.size()) / 1000, 2 + kCounters * 3.1);
}

// Otherwise each dispatch could have shapes of its own.
TEST(CounterLayout, ValuesThatAreSometimesFractionsHaveFewShapes) {
  CounterBatchEncoder encoder(kLayoutBatchBytes);
  const std::vector<rocattach_counter_value> values = Values(1000, true);
  ASSERT_EQ(encoder.Append(Records(values)), values.size());
  EXPECT_LE(Parsed(&encoder).shapes(), kCounters * (kCounters + 1));
}

TEST(CounterLayout, HostileOperationsAreRefused) {
  v1::CounterBatch intact;
  ASSERT_TRUE(intact.ParseFromString(EncodeOperations(Values(10, false))));
  const auto accepts = [&](auto change) {
    v1::CounterBatch batch = intact;
    change(&batch);
    std::vector<CounterRecord> records(1);
    const absl::Status status = DecodeCounterBatch(batch.SerializeAsString(), &records);
    EXPECT_TRUE(status.ok() || records.size() == 1) << "half of a batch";
    return status.ok();
  };
  EXPECT_TRUE(accepts([](auto*) {}));
  EXPECT_FALSE(accepts([](auto* b) { b->set_records(4'000'000'000); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_records(39); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_records(41); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_operations(0); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_operations(9); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_operations(4'000'000'000); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_pattern_length(0, 5); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_pattern_length(0, 3); }));
  EXPECT_FALSE(accepts([](auto* b) { b->set_pattern_length(0, 4'000'000'000); }));
  EXPECT_FALSE(accepts([](auto* b) { b->add_pattern_length(0); }));
  EXPECT_FALSE(accepts([](auto* b) { b->clear_pattern_length(); }));
  EXPECT_FALSE(accepts([](auto* b) { b->add_pattern(0); }));
  EXPECT_FALSE(accepts([](auto* b) {
    for (int i = 0; i < 10; ++i) b->add_pattern(1);
  }));
  EXPECT_FALSE(accepts([](auto* b) { b->add_sum_change(0); }));
  EXPECT_FALSE(accepts([](auto* b) { b->add_below_change(0); }));
  EXPECT_FALSE(accepts([](auto* b) { b->add_operation_change(0); }));
  // Numbers of any size are no more than that.
  EXPECT_TRUE(accepts([](auto* b) {
    b->set_sum_change(0, INT64_MAX);
    b->set_above_change(1, INT64_MIN);
    b->set_shape_instances(1, 0);
    b->set_shape_instances(2, UINT32_MAX);
  }));
}

}  // namespace
}  // namespace rocattach
