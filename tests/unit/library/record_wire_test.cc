// Records over the socket: whole ones, and bytes that a broken service could send.
#include "userspace/library/record_wire.h"

#include <gtest/gtest.h>
#include <string.h>

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "userspace/library/record_router.h"

namespace rocattach {
namespace {

class RecordWireTest : public testing::Test {
 protected:
  RecordWireTest() : router_(SessionId(1)) {
    SessionRoutes routes;
    routes.counters = routes.api = routes.sampler = RecordBuffer::Create(
        64 << 10, [this](const auto* begin, const auto* end) { Count(begin, end); });
    router_.SetRoutes(std::move(routes));
  }

  void Count(const RecordHeader* begin, const RecordHeader* end) {
    const auto* at = reinterpret_cast<const char*>(begin);
    while (at < reinterpret_cast<const char*>(end)) {
      const auto* record = reinterpret_cast<const RecordHeader*>(at);
      kinds_.push_back(record->kind);
      at += record->bytes;
    }
    ASSERT_EQ(at, reinterpret_cast<const char*>(end));
  }

  // The records that are routed from these bytes, and the number of lost ones.
  std::vector<SessionRecordKind> Route(const std::string& bytes, uint64_t* lost) {
    v1::RunRecords message;
    message.set_records(bytes);
    const uint64_t before = router_.dropped();
    kinds_.clear();
    ConsumeRecords(message, &router_);
    router_.Flush();
    *lost = router_.dropped() - before;
    return kinds_;
  }

  template <typename Record>
  static std::string Bytes(const Record& record, uint32_t counters) {
    std::string bytes(sizeof(record) + counters * sizeof(RecordValue), '\0');
    memcpy(bytes.data(), &record, sizeof(record));
    const auto size = static_cast<uint32_t>(bytes.size());
    memcpy(&bytes[offsetof(RecordHeader, bytes)], &size, sizeof(size));
    return bytes;
  }
  static std::string Dispatch(uint32_t counters) {
    DispatchRecord record = {};
    record.header.kind = SessionRecordKind::kDispatch;
    record.selected_by = kSelectedByCounters;
    record.values = counters;
    return Bytes(record, counters);
  }
  static std::string Call() {
    TraceRecord record = {};
    record.header.kind = SessionRecordKind::kTrace;
    return Bytes(record, 0);
  }
  static std::string Sample(uint32_t counters) {
    SampleRecord record = {};
    record.header.kind = SessionRecordKind::kSample;
    record.values = counters;
    return Bytes(record, counters);
  }
  // Returns `bytes` with a field of 32 bits overwritten.
  static std::string With(std::string bytes, size_t offset, uint32_t value) {
    memcpy(&bytes[offset], &value, sizeof(value));
    return bytes;
  }

  RecordRouter router_;
  std::vector<SessionRecordKind> kinds_;
};

TEST_F(RecordWireTest, WholeRecordsComeThroughInOrder) {
  uint64_t lost = 0;
  EXPECT_EQ(Route(Dispatch(3) + Call() + Sample(0) + Dispatch(0), &lost),
            (std::vector<SessionRecordKind>{
                SessionRecordKind::kDispatch, SessionRecordKind::kTrace,
                SessionRecordKind::kSample, SessionRecordKind::kDispatch}));
  EXPECT_EQ(lost, 0u);
  EXPECT_TRUE(Route("", &lost).empty());
  EXPECT_EQ(lost, 0u);
}

TEST_F(RecordWireTest, RecordsLostByTheServiceAreCounted) {
  v1::RunRecords message;
  message.set_lost(41);
  ConsumeRecords(message, &router_);
  EXPECT_EQ(router_.dropped(), 41u);
}

TEST_F(RecordWireTest, OnlyTheRecordThatIsCutIsLost) {
  const std::string first = Dispatch(2), second = Sample(4);
  for (size_t cut = 1; cut < second.size(); ++cut) {
    uint64_t lost = 0;
    EXPECT_EQ(Route(first + second.substr(0, cut), &lost).size(), 1u) << cut;
    EXPECT_EQ(lost, 1u) << "cut after " << cut << " bytes";
  }
}

TEST_F(RecordWireTest, SizesAreNotBelieved) {
  constexpr size_t kKind = offsetof(RecordHeader, kind);
  constexpr size_t kBytes = offsetof(RecordHeader, bytes);
  constexpr size_t kCounters = offsetof(DispatchRecord, values);
  const std::string good = Dispatch(4);
  const auto size = static_cast<uint32_t>(good.size());
  const std::vector<std::string> hostile = {
      With(good, kKind, 4),  // SPM, which is never sent
      With(good, kKind, 0xffffffff),
      With(good, kBytes, 0),  // reading would not end
      With(good, kBytes, 8),
      With(good, kBytes, size - 16),
      With(good, kBytes, size + 16),
      With(good, kBytes, 0xfffffff8),
      With(good, kCounters, 3),
      With(good, kCounters, 5),
      // 16 bytes each: in 32 bits, this count would overflow to 4.
      With(good, kCounters, 0x10000004),
      With(Sample(1), offsetof(SampleRecord, values), 2),
      With(Call(), kBytes, static_cast<uint32_t>(Call().size()) - 8),
  };
  for (size_t i = 0; i < hostile.size(); ++i) {
    uint64_t lost = 0;
    // The record after it cannot be found any more.
    EXPECT_EQ(Route(Call() + hostile[i] + Call(), &lost).size(), 1u) << i;
    EXPECT_EQ(lost, 1u) << i;
  }
}

// With AddressSanitizer this also checks memory accesses.
TEST_F(RecordWireTest, AnyBytesAreHandled) {
  std::mt19937 random(11);
  const std::string good = Dispatch(3) + Call() + Sample(2) + Dispatch(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes = good.substr(0, 1 + random() % good.size());
    for (int changes = 1 + static_cast<int>(random() % 4); changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    uint64_t lost = 0;
    EXPECT_LE(Route(bytes, &lost).size(), 4u);
    // One on the wire, and dispatches that the change has given to a filter without a
    // buffer.
    EXPECT_LE(lost, 3u);
  }
}

// A call with this text; `says` is the length that it claims to have.
std::string CallWithText(const std::string& text, uint32_t says) {
  TraceRecord record = {};
  record.header.kind = SessionRecordKind::kTrace;
  record.header.bytes = static_cast<uint32_t>(TraceBytes(says));
  record.text_bytes = says;
  std::string bytes(TraceBytes(text.size() + 1), '\0');
  memcpy(bytes.data(), &record, sizeof(record));
  memcpy(bytes.data() + sizeof(record), text.data(), text.size());
  return bytes;
}

TEST_F(RecordWireTest, TextsMustEndAtTheirStatedLength) {
  uint64_t lost = 0;
  for (const std::string text : {"a", "seven b", "eight by", "a longer text"}) {
    const auto says = static_cast<uint32_t>(text.size() + 1);
    EXPECT_EQ(Route(CallWithText(text, says) + Call(), &lost).size(), 2u) << text;
    EXPECT_EQ(lost, 0u);
    EXPECT_EQ(Route(CallWithText(text, says - 1), &lost).size(), 0u) << "no final 0";
    EXPECT_EQ(Route(CallWithText(text, says + 64), &lost).size(), 0u) << "beyond";
  }
  EXPECT_EQ(Route(CallWithText(std::string("a\0b", 3), 4), &lost).size(), 0u);
  EXPECT_EQ(Route(CallWithText("a", UINT32_MAX), &lost).size(), 0u);
}

}  // namespace
}  // namespace rocattach
