#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "absl/strings/str_cat.h"
#include "schemas/records.pb.h"
#include "tests/unit/stream/stream_testing.h"
#include "userspace/stream/api_batch.h"
#include "userspace/stream/counter_batch.h"
#include "userspace/stream/frame.h"
#include "userspace/stream/memory_batch.h"
#include "userspace/stream/process_stream.h"

namespace rocattach {
namespace {

constexpr size_t kSessionBatchBytes = 64 << 10;

uint64_t Bits(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof(bits));
  return bits;
}

std::string DescribeRecord(const CounterRecord& r) {
  std::string text = absl::StrCat(
      r.session, " ", r.operation, " ", r.plan, " ", r.pass, " ", r.counter, " ",
      r.kernel_id, " ", r.agent_id, " ", r.instances, " ", r.begin_ns, " ", r.end_ns,
      " ", Bits(r.sum), " ", Bits(r.minimum), " ", Bits(r.maximum));
  if (r.each == nullptr) return text;
  for (const CounterInstance& instance : *r.each) {
    absl::StrAppend(&text, " ", instance.position, ":", Bits(instance.value));
  }
  return text;
}

std::string DescribeRecord(const MemoryRecord& r) {
  return absl::StrCat(r.session, " ", r.correlation_id, " ", r.begin_ns, " ", r.end_ns,
                      " ", r.address, " ", r.bytes, " ", r.tid, " ", r.queue_id, " ",
                      r.operation, " ", r.agent_id, " ", r.scratch_flags);
}

std::string DescribeRecord(const ApiCallRecord& r) {
  return absl::StrCat(r.session, " ", r.correlation_id, " ", r.ancestor_id, " ",
                      r.begin_ns, " ", r.end_ns, " ", r.tid, " ", r.domain, " ",
                      r.function, " ", r.flags & kApiCallArguments, " ", r.text);
}

double AnyValue(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      return 0;
    case 1:
      return -0.0;
    case 2:
      return std::numeric_limits<double>::infinity();
    case 3:
      return std::nan("");
    case 4:
      return static_cast<double>(random()) * 1e-3;
    case 5:
      return 9007199254740991.0;
    case 6:
      return -1e300;
    default:
      return static_cast<double>(random() % 100000);
  }
}

// Dispatches of 40 counters in 5 passes, as a session makes them.
std::vector<CounterRecord> Regular(size_t dispatches) {
  std::vector<CounterRecord> records;
  for (size_t i = 0; i < dispatches; ++i) {
    for (uint16_t counter = 0; counter < 8; ++counter) {
      CounterRecord record;
      record.session = 3;
      record.operation = i + 1;
      record.plan = 1;
      record.pass = static_cast<uint16_t>(i % 5);
      record.counter = static_cast<uint16_t>(record.pass * 8 + counter);
      record.kernel_id = static_cast<uint32_t>(1 + i % 3);
      record.agent_id = 2;
      record.instances = 16;
      record.sum = 4096.0 * counter + static_cast<double>(i % 7);
      record.minimum = std::floor(record.sum / 16);
      record.maximum = std::floor(record.sum / 8);
      records.push_back(record);
    }
  }
  return records;
}

template <typename Encoder, typename Record, typename Decode>
size_t ExpectRoundTrip(const std::vector<Record>& records, Decode decode) {
  Encoder encoder(kSessionBatchBytes);
  std::vector<Record> decoded;
  std::string payload;
  size_t bytes = 0;
  for (size_t done = 0; done < records.size();) {
    const size_t taken = encoder.Append(absl::MakeConstSpan(records).subspan(done));
    done += taken;
    EXPECT_TRUE(encoder.full() || done == records.size());
    encoder.EncodeTo(&payload);
    EXPECT_LE(payload.size(), kMaxPayloadBytes);
    bytes += payload.size();
    const absl::Status status = decode(payload, &decoded);
    EXPECT_TRUE(status.ok()) << status;
    if (!status.ok()) return 0;
  }
  EXPECT_EQ(decoded.size(), records.size());
  for (size_t i = 0; i < std::min(decoded.size(), records.size()); ++i) {
    EXPECT_EQ(DescribeRecord(decoded[i]), DescribeRecord(records[i])) << "record " << i;
    if (testing::Test::HasFailure()) break;
  }
  return bytes;
}

TEST(CounterBatch, RegularValuesRoundTripAndAreSmall) {
  const std::vector<CounterRecord> records = Regular(20'000);
  const size_t bytes =
      ExpectRoundTrip<CounterBatchEncoder>(records, DecodeCounterBatch);
  // Three numbers, a counter and a dispatch; before compression.
  EXPECT_LT(static_cast<double>(bytes) / static_cast<double>(records.size()), 12);
}

TEST(CounterBatch, AnyValuesRoundTripBitByBit) {
  std::mt19937_64 random(11);
  std::vector<CounterRecord> records(5000);
  for (CounterRecord& record : records) {
    record.session = random();
    record.operation = random() % 4 == 0 ? random() : random() % 3;
    record.plan = static_cast<uint32_t>(random());
    record.pass = static_cast<uint16_t>(random());
    record.counter = static_cast<uint16_t>(random());
    record.kernel_id = static_cast<uint32_t>(random());
    record.agent_id = static_cast<uint16_t>(random());
    record.instances = static_cast<uint32_t>(random());
    record.begin_ns = random();
    record.end_ns = random();
    record.sum = AnyValue(random);
    record.minimum = AnyValue(random);
    record.maximum = AnyValue(random);
  }
  ExpectRoundTrip<CounterBatchEncoder>(records, DecodeCounterBatch);
}

TEST(CounterBatch, AnOperationIsNeverSplit) {
  std::vector<CounterRecord> records = Regular(30'000);
  CounterBatchEncoder encoder(1 << 20);
  const size_t taken = encoder.Append(records);
  ASSERT_LT(taken, records.size());
  EXPECT_TRUE(encoder.full());
  EXPECT_EQ(taken % 8, 0u);
  EXPECT_EQ(encoder.operations(), taken / 8);
}

TEST(CounterBatch, HostileBatchesAreRefused) {
  std::vector<CounterRecord> records;
  auto decode = [&](const v1::CounterBatch& batch) {
    return DecodeCounterBatch(batch.SerializeAsString(), &records);
  };
  v1::CounterBatch batch;
  batch.set_records(4'000'000'000);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss);
  batch.set_records(2);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "no operations";
  batch.set_operations(2);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "no pattern to name";
  batch.set_shapes(1);
  batch.add_pattern_length(1);
  EXPECT_TRUE(decode(batch).ok());
  batch.add_sum_change(1);
  EXPECT_EQ(decode(batch).code(), absl::StatusCode::kDataLoss) << "1 entry for 2 rows";
  EXPECT_EQ(records.size(), 2u);
  EXPECT_FALSE(DecodeCounterBatch("\xff\xff", &records).ok());
}

TEST(ApiBatch, RoundTrips) {
  std::mt19937_64 random(5);
  std::vector<ApiCallRecord> records(20'000);
  uint64_t now = 1'000'000;
  for (size_t i = 0; i < records.size(); ++i) {
    ApiCallRecord& record = records[i];
    record.session = 1;
    record.correlation_id = i + 1;
    record.ancestor_id = i % 5 == 0 ? 0 : i;
    record.begin_ns = now += random() % 1000;
    record.end_ns = record.begin_ns + random() % 500;
    record.tid = static_cast<uint32_t>(100 + i % 3);
    record.domain = static_cast<uint16_t>(i % 3);
    record.function = static_cast<uint16_t>(random() % 1024);
    if (record.domain == 2) record.text = absl::StrCat("phase ", i);
  }
  ExpectRoundTrip<ApiBatchEncoder>(records, DecodeApiBatch);
}

TEST(ApiBatch, HostileBatchesAreRefused) {
  std::vector<ApiCallRecord> records;
  v1::ApiCallBatch batch;
  batch.set_count(1);
  EXPECT_FALSE(DecodeApiBatch(batch.SerializeAsString(), &records).ok());
  batch.set_shapes(1);
  EXPECT_TRUE(DecodeApiBatch(batch.SerializeAsString(), &records).ok());
  batch.add_shape_flags(1);
  EXPECT_FALSE(DecodeApiBatch(batch.SerializeAsString(), &records).ok()) << "no text";
  batch.add_text("a");
  EXPECT_TRUE(DecodeApiBatch(batch.SerializeAsString(), &records).ok());
  EXPECT_EQ(records.size(), 2u);
  EXPECT_EQ(records[1].text, "a");
}

// Values, plans and events through writer and reader, with accounts.
TEST(SessionFrames, ReaderReturnsWrittenPlansValuesAndEvents) {
  struct Visitor : KeepingVisitor {
    void OnSessionPlan(const FrameContext&, const v1::SessionPlan& plan) override {
      plans.push_back(plan);
    }
    void OnCounters(const FrameContext&,
                    absl::Span<const CounterRecord> records) override {
      EXPECT_FALSE(plans.empty()) << "values before their plan";
      values.insert(values.end(), records.begin(), records.end());
    }
    void OnSession(const FrameContext&, const v1::SessionEvent& event) override {
      events.push_back(event);
      values_before.push_back(values.size());
    }
    std::vector<v1::SessionPlan> plans;
    std::vector<CounterRecord> values;
    std::vector<v1::SessionEvent> events;
    std::vector<size_t> values_before;
  };
  std::string bytes;
  auto writer = MakeWriter(&bytes);
  const StreamId id = writer->OpenProcess({});
  v1::SessionPlan plan;
  plan.set_id(1);
  plan.add_counters("SQ_WAVES");
  ASSERT_TRUE(writer->AddSessionPlan(id, plan).ok());
  v1::SessionEvent event;
  event.set_session(3);
  event.set_what(v1::SessionEvent::STARTED);
  ASSERT_TRUE(writer->AddSessionEvent(id, event).ok());
  const std::vector<CounterRecord> records = Regular(5000);
  ASSERT_TRUE(writer->Append<CounterKind>(id, records).ok());
  event.set_what(v1::SessionEvent::STOPPED);
  ASSERT_TRUE(writer->AddSessionEvent(id, event).ok());
  v1::LossAccount account;
  account.set_counted_seen(5002);
  account.set_counted_dropped(2);
  ASSERT_TRUE(writer->SetAccount(id, account).ok());
  ASSERT_TRUE(writer->EndProcess(id, {}).ok());
  ASSERT_TRUE(writer->Close().ok());
  Visitor visitor;
  StreamDecoder decoder(&visitor);
  decoder.Feed(bytes);
  decoder.FinishInput();
  EXPECT_FALSE(decoder.stats().damaged());
  EXPECT_EQ(decoder.stats().records[RecordKind::kCounter], records.size());
  ASSERT_EQ(visitor.events.size(), 2u);
  EXPECT_EQ(visitor.values_before[0], 0u);
  EXPECT_EQ(visitor.values_before[1], records.size()) << "the stop comes last";
  ASSERT_EQ(visitor.values.size(), records.size());
  const auto& accounts = visitor.streams.begin()->second.accounts;
  ASSERT_FALSE(accounts.empty());
  EXPECT_EQ(accounts.back().counted_delivered(), 5000u);
  EXPECT_EQ(accounts.back().counted_dropped(), 2u);
}

// Sessions come and go for as long as a process runs; a key frame does not grow with
// them, and what the last of their values refer to is in it.
TEST(SessionBatch, KeyFramesRepeatTheLastPlansOnly) {
  v1::Process process;
  process.set_pid(7);
  ProcessStream stream(1, process);
  size_t after_many = 0;
  for (uint32_t id = 1; id <= 10'000; ++id) {
    v1::Dictionary entries;
    v1::SessionPlan* plan = entries.add_session_plans();
    plan->set_id(id);
    plan->set_description(std::string(100, 'x'));
    stream.AddEntries(entries);
    if (id == 1000 || id == 10'000) {
      size_t bytes = 0;
      std::vector<uint32_t> ids;
      for (const std::string& payload : stream.KeyFramePayloads("recording", {})) {
        bytes += payload.size();
        v1::Dictionary read;
        ASSERT_TRUE(read.ParseFromString(payload));
        for (const auto& kept : read.session_plans()) ids.push_back(kept.id());
      }
      ASSERT_EQ(ids.size(), ProcessStream::kKeptPlans);
      EXPECT_EQ(ids.back(), id);
      if (id == 1000) after_many = bytes;
      EXPECT_LE(bytes, after_many + 1000);
    }
  }
}

// Instances of two engines of four channels each, as of one GPU.
std::shared_ptr<const std::vector<CounterInstance>> Instances(size_t count,
                                                              double first) {
  auto each = std::make_shared<std::vector<CounterInstance>>();
  for (size_t i = 0; i < count; ++i) {
    each->push_back({(i / 4) << ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT | i % 4,
                     first + static_cast<double>(i)});
  }
  return each;
}

TEST(CounterBatch, InstancesRoundTripAndAreSmall) {
  std::vector<CounterRecord> records = Regular(2000);
  const size_t without =
      ExpectRoundTrip<CounterBatchEncoder>(records, DecodeCounterBatch);
  size_t instances = 0;
  for (size_t i = 0; i < records.size(); ++i) {
    if (i % 5 == 0) continue;  // not every counter has them
    records[i].each = Instances(8, static_cast<double>(i % 3));
    instances += 8;
  }
  const size_t with = ExpectRoundTrip<CounterBatchEncoder>(records, DecodeCounterBatch);
  EXPECT_LT(with - without, instances * 2);
}

TEST(CounterBatch, InstancesOfAnyKindRoundTrip) {
  std::mt19937_64 random(11);
  std::vector<CounterRecord> records = Regular(300);
  for (CounterRecord& record : records) {
    auto each = std::make_shared<std::vector<CounterInstance>>();
    for (size_t i = 0; i <= random() % 40; ++i) {
      each->push_back({random() >> 16, AnyValue(random)});
    }
    record.each = std::move(each);
  }
  ExpectRoundTrip<CounterBatchEncoder>(records, DecodeCounterBatch);
  // As many as one batch cannot hold.
  records = Regular(100);
  for (CounterRecord& record : records) record.each = Instances(4096, 1);
  ExpectRoundTrip<CounterBatchEncoder>(records, DecodeCounterBatch);
}

TEST(CounterBatch, APositionIsThatOfEachDimension) {
  const uint64_t position = uint64_t{5} << ROCATTACH_INSTANCE_XCC_SHIFT |
                            uint64_t{3} << ROCATTACH_INSTANCE_AID_SHIFT |
                            uint64_t{31} << ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT |
                            uint64_t{1} << ROCATTACH_INSTANCE_SHADER_ARRAY_SHIFT |
                            uint64_t{9} << ROCATTACH_INSTANCE_WGP_SHIFT | 1000;
  const InstancePlace place = PlaceOf(position);
  EXPECT_EQ(place.xcc, 5u);
  EXPECT_EQ(place.aid, 3u);
  EXPECT_EQ(place.shader_engine, 31u);
  EXPECT_EQ(place.shader_array, 1u);
  EXPECT_EQ(place.wgp, 9u);
  EXPECT_EQ(place.instance, 1000u);
}

TEST(CounterBatch, ImpossibleListsOfInstancesAreRefused) {
  const auto status = [](auto change) {
    v1::CounterBatch batch;
    batch.set_records(2);
    batch.set_operations(2);
    batch.set_shapes(1);
    batch.add_pattern_length(1);
    batch.add_list_length(2);
    batch.add_list_position(1);
    batch.add_list_position(2);
    batch.add_shape_list(1);
    for (int i = 0; i < 4; ++i) batch.add_instance_change(i);
    change(&batch);
    std::vector<CounterRecord> records;
    return DecodeCounterBatch(batch.SerializeAsString(), &records);
  };
  EXPECT_TRUE(status([](v1::CounterBatch*) {}).ok());
  EXPECT_TRUE(status([](auto* b) { b->clear_instance_change(); }).ok()) << "zeros";
  EXPECT_TRUE(status([](auto* b) { b->clear_list_position(); }).ok()) << "zeros";
  EXPECT_FALSE(status([](auto* b) { b->set_shape_list(0, 2); }).ok());
  EXPECT_FALSE(status([](auto* b) { b->add_instance_change(1); }).ok());
  EXPECT_FALSE(status([](auto* b) { b->add_list_position(1); }).ok());
  // Columns that are absent must not make a reader allocate without limit.
  EXPECT_FALSE(status([](auto* b) {
                 b->clear_list_position();
                 b->clear_instance_change();
                 b->set_list_length(0, 1 << 30);
               }).ok());
  EXPECT_FALSE(status([](auto* b) {
                 b->clear_list_position();
                 b->clear_instance_change();
                 b->set_list_length(0, 1 << 19);
                 b->set_records(3);
                 b->set_operations(3);
               }).ok());
}

TEST(MemoryBatch, AnyRecordsRoundTrip) {
  std::mt19937_64 random(3);
  std::vector<MemoryRecord> records;
  for (int i = 0; i < 40'000; ++i) {
    MemoryRecord record;
    const bool any = i % 100 == 0;
    record.session = any ? random() : 1;
    record.correlation_id = any ? random() : static_cast<uint64_t>(i);
    record.begin_ns = any ? random() : 1'000'000'000 + 5000 * static_cast<uint64_t>(i);
    record.end_ns = any ? random() : record.begin_ns + random() % 10'000;
    record.address = any ? random() : 0x7f0000000000 + (random() % 100 << 21);
    record.bytes = any ? random() : random() % 3 << 21;
    record.tid = static_cast<uint32_t>(any ? random() : 77);
    record.queue_id = static_cast<uint32_t>(any ? random() : 0);
    record.operation = static_cast<uint16_t>(random() % 8);
    record.agent_id = static_cast<uint16_t>(any ? random() : 1);
    record.scratch_flags = static_cast<uint16_t>(any ? random() : 0);
    records.push_back(record);
  }
  const size_t bytes = ExpectRoundTrip<MemoryBatchEncoder>(records, DecodeMemoryBatch);
  EXPECT_LT(bytes, records.size() * 20);
}

TEST(MemoryBatch, RejectsInvalidColumns) {
  v1::MemoryBatch batch;
  batch.set_count(3);
  batch.set_shapes(1);
  std::vector<MemoryRecord> records;
  EXPECT_TRUE(DecodeMemoryBatch(batch.SerializeAsString(), &records).ok());
  EXPECT_EQ(records.size(), 3u);
  batch.add_bytes(1);
  EXPECT_FALSE(DecodeMemoryBatch(batch.SerializeAsString(), &records).ok());
  batch.clear_bytes();
  for (int i = 0; i < 3; ++i) batch.add_shape(1);
  EXPECT_FALSE(DecodeMemoryBatch(batch.SerializeAsString(), &records).ok());
  EXPECT_EQ(records.size(), 3u) << "as before";
}

TEST(ApiBatch, SplitsArgumentsIntoNamesAndValues) {
  ApiCallRecord call;
  call.text = "pointer=0x7f\nbytes=4096\nname=a=b\nodd";
  EXPECT_TRUE(ArgumentsOf(call).empty()) << "a marker's text";
  call.flags = kApiCallArguments;
  const std::vector<ApiArgument> arguments = ArgumentsOf(call);
  ASSERT_EQ(arguments.size(), 3u);
  EXPECT_EQ(arguments[0].name, "pointer");
  EXPECT_EQ(arguments[0].value, "0x7f");
  EXPECT_EQ(arguments[2].name, "name");
  EXPECT_EQ(arguments[2].value, "a=b");
  ExpectRoundTrip<ApiBatchEncoder>(std::vector<ApiCallRecord>{call, ApiCallRecord()},
                                   DecodeApiBatch);
}

}  // namespace
}  // namespace rocattach
