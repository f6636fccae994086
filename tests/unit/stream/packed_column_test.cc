// Columns of varints have protobuf's bytes, whichever function adds the entries.
#include "userspace/stream/packed_column.h"

#include <gtest/gtest.h>

#include <iterator>
#include <string>
#include <vector>

namespace rocattach {
namespace {

// A varint as protobuf's documentation describes it.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>(value | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

std::string Expected(const std::vector<uint64_t>& values) {
  std::string bytes;
  uint64_t any = 0;
  for (uint64_t value : values) {
    bytes += Varint(value);
    any |= value;
  }
  if (any == 0) return "";
  return Varint(5 << 3 | 2) + Varint(bytes.size()) + bytes;
}

std::string Field(const PackedColumn& column) {
  std::string field;
  column.AppendTo(5, &field);
  return field;
}

// Values of each encoded length, and those next to a change of length.
std::vector<uint64_t> Edges() {
  std::vector<uint64_t> values;
  for (int bit = 0; bit < 64; ++bit) {
    const uint64_t power = uint64_t{1} << bit;
    for (uint64_t value : {power - 1, power, power + 1}) values.push_back(value);
  }
  values.push_back(~uint64_t{0});
  return values;
}

TEST(PackedColumn, ShortVarints) {
  for (uint64_t value = 0; value < 0x4000; ++value) {
    uint8_t room[3] = {0xee, 0xee, 0xee};
    uint8_t* const end = PutVarint14(value, room);
    ASSERT_EQ(std::string(room, end), Varint(value));
    ASSERT_EQ(room[2], 0xee);
  }
}

TEST(PackedColumn, PutAllEncodesEveryLengthAsPutDoes) {
  for (uint64_t limit : Edges()) {
    std::vector<uint64_t> values;
    uint64_t any = 0;
    for (uint64_t value : Edges()) {
      if (value > limit) continue;
      values.push_back(value);
      any |= value;
    }
    PackedColumn one_by_one, at_once;
    one_by_one.Reserve(values.size());
    for (uint64_t value : values) one_by_one.Put(value);
    at_once.Reserve(values.size());
    at_once.PutAll(values.data(), values.size(), any);
    EXPECT_EQ(Field(one_by_one), Expected(values)) << limit;
    EXPECT_EQ(Field(at_once), Expected(values)) << limit;
    EXPECT_EQ(one_by_one.bytes(), at_once.bytes());
  }
}

TEST(PackedColumn, ZerosBeforeAnythingElseAreNotLost) {
  const std::vector<uint64_t> zeros(100, 0);
  std::vector<uint64_t> all(250, 0);
  all.push_back(300);
  all.push_back(0);
  all.insert(all.end(), 100, 0);
  PackedColumn column;
  for (int round = 0; round < 2; ++round) {
    column.Reserve(50);
    for (int i = 0; i < 50; ++i) column.Put(0);
    EXPECT_EQ(Field(column), "") << "nothing but zeros is omitted";
    column.Reserve(zeros.size());
    column.PutZeros(zeros.size());
    column.Reserve(zeros.size());
    column.PutAll(zeros.data(), zeros.size(), 0);
    EXPECT_EQ(column.bytes(), 250u);
    column.Reserve(2 + zeros.size());
    column.Put(300);
    column.Put(0);
    column.PutAll(zeros.data(), zeros.size(), 0);
    EXPECT_EQ(Field(column), Expected(all));
    column.Clear();
    // After other entries have been there, the memory is not zero.
    column.Reserve(400);
    for (int i = 0; i < 400; ++i) column.Put(0x7f);
    column.Clear();
    EXPECT_EQ(column.bytes(), 0u);
  }
}

}  // namespace
}  // namespace rocattach
