#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schemas/records.pb.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/stream/copy_batch.h"
#include "userspace/stream/dispatch_batch.h"
#include "userspace/stream/frame.h"

namespace rocattach {
namespace {

constexpr size_t kBatchBytes = 64 << 10;

// Encodes all records in as many batches as needed, and decodes the batches.
std::vector<rocattach_dispatch> RoundTrip(
    const std::vector<rocattach_dispatch>& records) {
  DispatchBatchEncoder encoder(kBatchBytes);
  std::vector<rocattach_dispatch> decoded;
  std::string payload;
  size_t done = 0;
  while (done < records.size()) {
    size_t taken = encoder.Append(absl::MakeConstSpan(records).subspan(done));
    EXPECT_GT(taken, 0u);
    done += taken;
    encoder.EncodeTo(&payload);
    EXPECT_LE(payload.size(), kMaxPayloadBytes);
    absl::Status status = DecodeDispatchBatch(payload, &decoded);
    EXPECT_TRUE(status.ok()) << status;
  }
  return decoded;
}

void ExpectSame(const std::vector<rocattach_dispatch>& got,
                const std::vector<rocattach_dispatch>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(Describe(got[i]), Describe(want[i])) << "record " << i;
  }
}

TEST(DispatchBatch, RegularRecordsRoundTrip) {
  std::vector<rocattach_dispatch> records = RegularDispatches(50'000);
  ExpectSame(RoundTrip(records), records);
}

TEST(DispatchBatch, AnyValuesRoundTrip) {
  std::mt19937_64 random(42);
  for (size_t count : {1u, 2u, 255u, 256u, 257u, 5000u}) {
    std::vector<rocattach_dispatch> records = RandomDispatches(count, &random);
    ExpectSame(RoundTrip(records), records);
  }
}

TEST(DispatchBatch, DispatchIdsUseSpaceOnlyIfTheyAreKnown) {
  DispatchBatchEncoder encoder(kBatchBytes);
  std::string payload;
  v1::DispatchBatch batch;
  std::vector<rocattach_dispatch> records = RegularDispatches(1000);
  ASSERT_EQ(encoder.Append(records), records.size());
  encoder.EncodeTo(&payload);
  ASSERT_TRUE(batch.ParseFromString(payload));
  EXPECT_EQ(batch.dispatch_size(), 0);
  EXPECT_FALSE(batch.dispatch_ids());
  // Readers predict consecutive numbers from 1.
  for (size_t i = 0; i < records.size(); ++i) records[i].dispatch_id = i + 1;
  ExpectSame(RoundTrip(records), records);
  ASSERT_EQ(encoder.Append(records), records.size());
  encoder.EncodeTo(&payload);
  ASSERT_TRUE(batch.ParseFromString(payload));
  EXPECT_EQ(batch.dispatch_size(), 0);
  EXPECT_TRUE(batch.dispatch_ids());
}

TEST(DispatchBatch, UntimedRecordsStoreNoTimes) {
  std::vector<rocattach_dispatch> records = RegularDispatches(1000);
  for (rocattach_dispatch& record : records) {
    record.flags = ROCATTACH_DISPATCH_UNTIMED;
    record.start_ns = record.end_ns = 0;
  }
  ExpectSame(RoundTrip(records), records);
  DispatchBatchEncoder encoder(kBatchBytes);
  ASSERT_EQ(encoder.Append(records), records.size());
  std::string payload;
  encoder.EncodeTo(&payload);
  v1::DispatchBatch batch;
  ASSERT_TRUE(batch.ParseFromString(payload));
  EXPECT_EQ(batch.start_size(), 0);
  EXPECT_EQ(batch.duration_size(), 0);
  EXPECT_EQ(batch.first_start_ns(), 0u);
}

TEST(DispatchBatch, IsTheGeneratedMessage) {
  std::vector<rocattach_dispatch> records = RegularDispatches(100);
  DispatchBatchEncoder encoder(kBatchBytes);
  ASSERT_EQ(encoder.Append(records), records.size());
  std::string payload;
  encoder.EncodeTo(&payload);
  v1::DispatchBatch batch;
  ASSERT_TRUE(batch.ParseFromString(payload));
  EXPECT_EQ(batch.count(), 100u);
  EXPECT_EQ(batch.first_start_ns(), records.front().start_ns);
  EXPECT_EQ(batch.last_end_ns(), std::max_element(records.begin(), records.end(),
                                                  [](const auto& a, const auto& b) {
                                                    return a.end_ns < b.end_ns;
                                                  })
                                     ->end_ns);
  EXPECT_EQ(batch.shape_size(), 100);
  EXPECT_EQ(batch.duration_size(), 100);
  // Five kernels on two queues.
  EXPECT_EQ(batch.shapes(), 10u);
  EXPECT_EQ(batch.shape_kernel_id_size(), 10);
  EXPECT_EQ(batch.shape_kernel_id(0), 1u);
  EXPECT_EQ(batch.shape_queue_id(0), 1u);
  EXPECT_EQ(batch.shape_agent_id(3), 2u);
  EXPECT_EQ(batch.shape_tid(3), 4711u);
  EXPECT_EQ(batch.shape_grid_x(0), 1u << 20);
  EXPECT_EQ(batch.shape_workgroup_x(0), 256u);
  EXPECT_EQ(batch.shape_lds_bytes(2), 16384u);
  // All zero and therefore absent: flags, scratch, and consecutive correlation IDs.
  EXPECT_EQ(batch.shape_flags_size(), 0);
  EXPECT_EQ(batch.shape_scratch_bytes_size(), 0);
  EXPECT_EQ(batch.correlation_size(), 0);
  EXPECT_EQ(batch.enqueue(0), static_cast<int64_t>(records[0].enqueue_ns));
  EXPECT_EQ(batch.duration(7), records[7].end_ns - records[7].start_ns);
  // protobuf writes the same number of bytes.
  EXPECT_EQ(batch.SerializeAsString().size(), payload.size());
}

TEST(DispatchBatch, StopsWhenFull) {
  std::mt19937_64 random(1);
  std::vector<rocattach_dispatch> records = RandomDispatches(20'000, &random);
  DispatchBatchEncoder encoder(kBatchBytes);
  size_t taken = encoder.Append(records);
  EXPECT_LT(taken, records.size());
  EXPECT_TRUE(encoder.full());
  EXPECT_EQ(encoder.Append(records), 0u);
  EXPECT_EQ(encoder.count(), taken);
  std::string payload;
  encoder.EncodeTo(&payload);
  EXPECT_LT(payload.size(), 3 * kBatchBytes);
  EXPECT_EQ(encoder.count(), 0u);
  EXPECT_FALSE(encoder.full());
}

TEST(DispatchBatch, CountIsBoundedHoweverSmallRecordsAre) {
  std::vector<rocattach_dispatch> records(kMaxBatchRecords + 1);
  for (size_t i = 0; i < records.size(); ++i) {
    records[i].kind = ROCATTACH_RECORD_DISPATCH;
    records[i].correlation_id = i + 1;
    records[i].packet_index = i + 1;
  }
  DispatchBatchEncoder encoder(1 << 20);
  EXPECT_EQ(encoder.Append(records), kMaxBatchRecords);
  records.resize(kMaxBatchRecords);
  ExpectSame(RoundTrip(records), records);
}

TEST(DispatchBatch, HostileBatchesAreRefused) {
  std::vector<rocattach_dispatch> records;
  auto decode = [&](const v1::DispatchBatch& batch) {
    return DecodeDispatchBatch(batch.SerializeAsString(), &records);
  };
  v1::DispatchBatch batch;
  batch.set_count(4'000'000'000);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss);
  batch.set_count(2);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "no shape to name";
  batch.set_shapes(3);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "more than records";
  batch.set_shapes(1);
  EXPECT_TRUE(decode(batch).ok());
  EXPECT_EQ(records.size(), 2u);
  batch.add_duration(1);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "1 entry for 2 rows";
  batch.add_duration(1);
  batch.add_shape(0);
  batch.add_shape(1);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "shape 1 of 1";
  EXPECT_EQ(records.size(), 2u) << "nothing is left of a refused batch";
  EXPECT_FALSE(DecodeDispatchBatch("\xff\xff\xff", &records).ok());
}

TEST(CopyBatch, AnyValuesRoundTrip) {
  std::mt19937_64 random(43);
  std::vector<rocattach_copy> records = RandomCopies(3000, &random);
  CopyBatchEncoder encoder(kBatchBytes);
  std::vector<rocattach_copy> decoded;
  std::string payload;
  for (size_t done = 0; done < records.size();) {
    size_t taken = encoder.Append(absl::MakeConstSpan(records).subspan(done));
    ASSERT_GT(taken, 0u);
    done += taken;
    encoder.EncodeTo(&payload);
    v1::CopyBatch batch;
    ASSERT_TRUE(batch.ParseFromString(payload));
    EXPECT_EQ(batch.count(), taken);
    absl::Status status = DecodeCopyBatch(payload, &decoded);
    ASSERT_TRUE(status.ok()) << status;
  }
  ASSERT_EQ(decoded.size(), records.size());
  for (size_t i = 0; i < decoded.size(); ++i) {
    ASSERT_EQ(Describe(decoded[i]), Describe(records[i])) << "record " << i;
  }
}

TEST(CopyBatch, HostileBatchesAreRefused) {
  std::vector<rocattach_copy> records;
  v1::CopyBatch batch;
  batch.set_count(1);
  EXPECT_FALSE(DecodeCopyBatch(batch.SerializeAsString(), &records).ok());
  batch.set_shapes(1);
  EXPECT_TRUE(DecodeCopyBatch(batch.SerializeAsString(), &records).ok());
  batch.add_bytes_change(1);
  batch.add_bytes_change(1);
  EXPECT_FALSE(DecodeCopyBatch(batch.SerializeAsString(), &records).ok());
  EXPECT_EQ(records.size(), 1u);
}

}  // namespace
}  // namespace rocattach
