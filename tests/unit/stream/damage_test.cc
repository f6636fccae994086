// Truncation at every byte and a flip of every byte: only the affected frames are lost,
// and the reader reports the damage.
#include <gtest/gtest.h>

#include <set>

#include "tests/unit/stream/stream_testing.h"

namespace rocattach {
namespace {

using Key = KeepingVisitor::Key;

// The frames of a stream, by (stream, sequence).
std::set<std::pair<uint32_t, uint32_t>> FrameIds(absl::string_view bytes) {
  std::set<std::pair<uint32_t, uint32_t>> ids;
  FrameScanner scanner([](const SkippedRange&) {});
  scanner.Append(bytes);
  scanner.Finish();
  FrameView frame;
  while (scanner.Next(&frame)) {
    ids.insert({frame.header.stream_id, frame.header.sequence});
  }
  return ids;
}

class Damage_ : public testing::TestWithParam<int> {};

TEST_P(Damage_, TruncationAtEveryByte) {
  std::string bytes = SampleRecording(GetParam());
  std::vector<size_t> offsets = FrameOffsets(bytes);
  size_t whole = 0;
  for (size_t cut = 0; cut < bytes.size(); ++cut) {
    while (offsets[whole + 1] <= cut) ++whole;
    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(absl::string_view(bytes).substr(0, cut), &visitor);
    // Every frame before the cut is read, and nothing of the frame that was cut.
    ASSERT_EQ(stats.frames, whole) << "cut at " << cut;
    ASSERT_EQ(stats.truncated_bytes, cut - offsets[whole]) << "cut at " << cut;
    ASSERT_EQ(stats.skipped_bytes, stats.truncated_bytes);
    ASSERT_EQ(visitor.HasDamage(Damage::Kind::kSkippedBytes), cut != offsets[whole]);
    ASSERT_EQ(stats.missing_frames, 0u);
    if (whole > 0) {
      ASSERT_TRUE(visitor.HasDamage(Damage::Kind::kNoEnd));
    }
  }
}

TEST_P(Damage_, EveryByteFlipped) {
  std::string bytes = SampleRecording(GetParam());
  std::vector<size_t> offsets = FrameOffsets(bytes);
  const auto all = FrameIds(bytes);
  size_t frame = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    while (offsets[frame + 1] <= at) ++frame;
    std::string bad = bytes;
    bad[at] = static_cast<char>(bad[at] ^ (1 << at % 8));
    auto left = FrameIds(bad);
    ASSERT_EQ(left.size() + 1, all.size()) << "flip at " << at;
    ASSERT_TRUE(std::includes(all.begin(), all.end(), left.begin(), left.end()));

    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(bad, &visitor);
    ASSERT_TRUE(stats.damaged()) << "flip at " << at;
    ASSERT_EQ(stats.frames + 1, all.size()) << "flip at " << at;
    ASSERT_EQ(stats.skipped_bytes, offsets[frame + 1] - offsets[frame]);
    ASSERT_EQ(stats.recordings, 1u) << "flip at " << at;
    // The gap in the numbers shows the loss, unless it was the first or the last frame.
    bool edge = frame == 0 || frame + 2 == offsets.size();
    ASSERT_EQ(stats.missing_frames, edge ? 0u : 1u) << "flip at " << at;
    // Either all records are read, or those of one batch are missing.
    size_t dispatches = visitor.dispatch_count();
    ASSERT_TRUE(dispatches == 40 || dispatches == 20) << dispatches;
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Damage_, testing::Values(0, 1));

TEST(Concatenation, TwoFilesAreTwoRecordings) {
  std::string a = SampleRecording(0);
  std::string b = SampleRecording(1);
  KeepingVisitor visitor;
  ReadStats stats = ReadBytes(a + b + a, &visitor);
  EXPECT_FALSE(stats.damaged());
  EXPECT_TRUE(visitor.damages.empty());
  EXPECT_EQ(stats.recordings, 3u);
  EXPECT_EQ(stats.recordings_ended, 3u);
  for (uint32_t recording = 0; recording < 3; ++recording) {
    EXPECT_EQ(visitor.streams[Key(recording, 1)].dispatches.size(), 40u);
    EXPECT_EQ(visitor.streams[Key(recording, 1)].kernels.size(), 5u);
  }
}

TEST(Concatenation, BehindATornFile) {
  std::string a = SampleRecording(0);
  std::string b = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(a);
  // Cuts in the middle of a batch; the second file then begins at an odd offset.
  for (size_t cut : {offsets[4] + 37, offsets[4] + 3, offsets[2] + 1}) {
    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(a.substr(0, cut) + b, &visitor);
    EXPECT_EQ(stats.recordings, 2u);
    EXPECT_EQ(stats.recordings_ended, 1u);
    EXPECT_TRUE(stats.damaged());
    EXPECT_EQ(visitor.streams[Key(1, 1)].dispatches.size(), 40u);
    EXPECT_TRUE(visitor.HasDamage(Damage::Kind::kNoEnd));
  }
}

TEST(Concatenation, SecondFileWithoutItsHeader) {
  std::string a = SampleRecording(0);
  std::string b = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(b);
  // Without an end frame, only IDs and sequence numbers show the boundary.
  std::vector<size_t> a_offsets = FrameOffsets(a);
  std::string open = a.substr(0, a_offsets[a_offsets.size() - 2]);
  for (size_t lost : {1u, 2u, 3u}) {
    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(open + b.substr(offsets[lost]), &visitor);
    EXPECT_EQ(stats.recordings, 2u) << lost << " frames lost";
    EXPECT_TRUE(visitor.HasDamage(Damage::Kind::kNoBeginning));
    EXPECT_EQ(visitor.streams[Key(0, 1)].dispatches.size(), 40u);
    EXPECT_EQ(visitor.streams[Key(1, 1)].dispatches.size(), 40u);
  }
}

TEST(Damage, FramesOfANewerVersionAreSkippedAndCounted) {
  std::string bytes = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  FrameHeader header;
  header.version = 9;
  header.type = 3;
  header.stream_id = 777;
  std::string newer;
  BuildFrame(header, "who knows", &newer);
  header.version = 1;
  header.type = 200;
  header.stream_id = 778;
  std::string unknown;
  BuildFrame(header, "who knows", &unknown);
  std::string mixed =
      bytes.substr(0, offsets[3]) + newer + unknown + bytes.substr(offsets[3]);
  KeepingVisitor visitor;
  ReadStats stats = ReadBytes(mixed, &visitor);
  EXPECT_EQ(stats.unknown_frames, 2u);
  EXPECT_EQ(visitor.dispatch_count(), 40u);
  EXPECT_EQ(stats.skipped_bytes, 0u);
  EXPECT_FALSE(stats.damaged());
}

TEST(Damage, PayloadThatMakesNoSenseIsReported) {
  std::string bytes = SampleRecording(0);
  std::vector<size_t> offsets = FrameOffsets(bytes);
  for (uint8_t type : {1, 2, 3, 6, 8, 9, 10, 12, 13}) {
    FrameHeader header;
    header.type = type;
    header.stream_id = 779;
    header.records = 6;
    std::string frame;
    BuildFrame(header, "\xff\xff\xff\xff", &frame);
    KeepingVisitor visitor;
    ReadStats stats = ReadBytes(
        bytes.substr(0, offsets[3]) + frame + bytes.substr(offsets[3]), &visitor);
    EXPECT_EQ(stats.undecodable_frames, 1u) << int{type};
    EXPECT_EQ(stats.lost_records, 6u);
    EXPECT_TRUE(visitor.HasDamage(Damage::Kind::kUndecodable));
    EXPECT_EQ(visitor.dispatch_count(), 40u) << int{type};
  }
}

}  // namespace
}  // namespace rocattach
