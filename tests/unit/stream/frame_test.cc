#include "userspace/stream/frame.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/strings/escaping.h"
#include "userspace/stream/compression.h"
#include "userspace/stream/crc32c.h"
#include "userspace/stream/dispatch_batch.h"
#include "userspace/stream/frame_scanner.h"

namespace rocattach {
namespace {

constexpr char kDocumentedExample[] =
    "524157f1010300004d000000e1b0887b010000000500000003000000a5195477"
    "0803109a0818ff0c20013201013a01014201024a014d520280085a0101620101"
    "6a01407201017a0101aa0103120000b20106d00fc801c801ba0103640a0ac201"
    "06c801c901ca01ca0103060000000000";

std::string RandomBytes(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::string bytes(count, '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  return bytes;
}

std::string Frame(absl::string_view payload, uint32_t sequence) {
  FrameHeader header;
  header.type = 3;
  header.stream_id = 9;
  header.sequence = sequence;
  header.records = 5;
  std::string frame;
  BuildFrame(header, payload, &frame);
  return frame;
}

// The results of a scanner when the bytes come in pieces of `step`.
struct Found {
  std::vector<std::string> payloads;
  std::vector<SkippedRange> skips;
};

Found Scan(absl::string_view bytes, size_t step) {
  Found found;
  FrameScanner scanner(
      [&](const SkippedRange& range) { found.skips.push_back(range); });
  FrameView frame;
  for (size_t at = 0; at < bytes.size(); at += step) {
    scanner.Append(bytes.substr(at, step));
    while (scanner.Next(&frame)) found.payloads.emplace_back(frame.payload);
  }
  scanner.Finish();
  while (scanner.Next(&frame)) found.payloads.emplace_back(frame.payload);
  EXPECT_EQ(scanner.pending_bytes(), 0u);
  return found;
}

TEST(Crc32c, KnownAnswers) {
  // RFC 3720, B.4, and the usual check value.
  EXPECT_EQ(Crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8a9136aau);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62a8ab43u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32c, PortableIsTheSame) {
  for (size_t length = 0; length < 200; ++length) {
    std::string bytes = RandomBytes(length, static_cast<uint32_t>(length));
    ASSERT_EQ(Crc32c(bytes), Crc32cPortable(bytes)) << length;
  }
}

TEST(Frame, HeaderLayout) {
  FrameHeader header;
  header.type = 3;
  header.codec = 2;
  header.flags = 1;
  header.payload_bytes = 0x0a0b0c;
  header.payload_crc = 0x11223344;
  header.stream_id = 7;
  header.sequence = 8;
  header.records = 9;
  char bytes[kFrameHeaderBytes];
  EncodeFrameHeader(header, bytes);
  const char want[] =
      "RAW\xf1\x01\x03\x02\x01\x0c\x0b\x0a\x00\x44\x33\x22\x11"
      "\x07\x00\x00\x00\x08\x00\x00\x00\x09\x00\x00\x00";
  EXPECT_EQ(absl::string_view(bytes, 28), absl::string_view(want, 28));
  std::optional<FrameHeader> decoded = DecodeFrameHeader(bytes);
  ASSERT_TRUE(decoded.has_value());
  EXPECT_EQ(decoded->payload_bytes, header.payload_bytes);
  EXPECT_EQ(decoded->records, 9u);
}

// The example of docs/stream-format.md.
TEST(Frame, DocumentedExample) {
  rocattach_dispatch records[3] = {};
  for (uint32_t i = 0; i < 3; ++i) {
    records[i].kernel_id = 1;
    records[i].correlation_id = 10 + i;
    records[i].enqueue_ns = 1000 + 100 * i;
    records[i].start_ns = i == 0 ? 1050 : records[i - 1].end_ns + 5;
    records[i].end_ns = records[i].start_ns + 200 + i;
    records[i].queue_id = 1;
    records[i].agent_id = 2;
    records[i].tid = 77;
    records[i].grid_x = 1024;
    records[i].grid_y = records[i].grid_z = 1;
    records[i].workgroup_x = 64;
    records[i].workgroup_y = records[i].workgroup_z = 1;
    records[i].packet_index = 4 + i;
  }
  DispatchBatchEncoder encoder(64 << 10);
  ASSERT_EQ(encoder.Append(records), 3u);
  std::string payload;
  encoder.EncodeTo(&payload);
  FrameHeader header;
  header.type = 3;
  header.stream_id = 1;
  header.sequence = 5;
  header.records = 3;
  std::string frame;
  BuildFrame(header, payload, &frame);
  EXPECT_EQ(absl::BytesToHexString(frame), kDocumentedExample);
}

TEST(Frame, AnyFlippedBitInTheHeaderIsFound) {
  std::string frame = Frame("payload", 0);
  for (size_t bit = 0; bit < kFrameHeaderBytes * 8; ++bit) {
    std::string bad = frame;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_FALSE(DecodeFrameHeader(bad.data()).has_value()) << "bit " << bit;
  }
}

TEST(Frame, AnOverlongPayloadIsNotAFrame) {
  FrameHeader header;
  header.payload_bytes = kMaxPayloadBytes + 1;
  char bytes[kFrameHeaderBytes];
  EncodeFrameHeader(header, bytes);
  EXPECT_FALSE(DecodeFrameHeader(bytes).has_value());
}

TEST(FrameScanner, FindsFramesInPiecesOfAnySize) {
  std::string bytes;
  for (uint32_t i = 0; i < 20; ++i) bytes += Frame(RandomBytes(i * 3, i), i);
  for (size_t step : {1u, 2u, 7u, 31u, 33u, 100000u}) {
    Found found = Scan(bytes, step);
    ASSERT_EQ(found.payloads.size(), 20u) << step;
    EXPECT_TRUE(found.skips.empty());
    for (uint32_t i = 0; i < 20; ++i)
      EXPECT_EQ(found.payloads[i], RandomBytes(i * 3, i));
  }
}

TEST(FrameScanner, ResynchronisesAfterForeignBytes) {
  // Text, half a magic number, and one without a header, at odd offsets.
  std::string garbage = "hello RAW RA RAW\xf1 and so on, long enough for a header";
  std::string bytes = garbage + Frame("one", 0) + "x" + Frame("two", 1) + garbage;
  for (size_t step : {1u, 5u, 100000u}) {
    Found found = Scan(bytes, step);
    ASSERT_EQ(found.payloads, (std::vector<std::string>{"one", "two"})) << step;
    ASSERT_EQ(found.skips.size(), 3u);
    EXPECT_EQ(found.skips[0].offset, 0u);
    EXPECT_EQ(found.skips[0].bytes, garbage.size());
    EXPECT_EQ(found.skips[1].bytes, 1u);
    EXPECT_EQ(found.skips[1].offset, garbage.size() + Frame("one", 0).size());
    EXPECT_TRUE(found.skips[2].at_end);
    EXPECT_EQ(found.skips[2].bytes, garbage.size());
  }
}

TEST(FrameScanner, FramesInsideATornOneAreFound) {
  // A frame of which only the first 50 bytes were written, followed by others.
  std::string torn = Frame(RandomBytes(1000, 1), 0).substr(0, 50);
  std::string bytes = torn;
  for (uint32_t i = 1; i < 30; ++i) bytes += Frame(RandomBytes(60, i), i);
  Found found = Scan(bytes, 64);
  EXPECT_EQ(found.payloads.size(), 29u);
  ASSERT_EQ(found.skips.size(), 1u);
  EXPECT_EQ(found.skips[0].bytes, 50u);
  EXPECT_EQ(found.skips[0].damaged_frames, 1u);
  EXPECT_EQ(found.skips[0].damaged_records, 5u);
}

TEST(FrameScanner, ManyDamagedHeadersCostBoundedWork) {
  // Every header claims the maximum payload and has a wrong checksum for it.
  FrameHeader header;
  header.payload_bytes = kMaxPayloadBytes;
  std::string bytes(kFrameHeaderBytes, '\0');
  EncodeFrameHeader(header, bytes.data());
  std::string all;
  while (all.size() < 3 << 20) all += bytes;
  Found found = Scan(all, 65536);
  EXPECT_TRUE(found.payloads.empty());
  ASSERT_EQ(found.skips.size(), 1u);
  EXPECT_EQ(found.skips[0].bytes, all.size());
  // 3 MiB contain 98,304 headers; checking each would take 96 GiB of checksums.
  EXPECT_LT(found.skips[0].damaged_frames, 1000u);
}

TEST(Compression, RoundTripAndBounds) {
  Compressor compressor(1);
  Decompressor decompressor;
  std::string payload(100000, 'a');
  std::string packed, plain;
  ASSERT_TRUE(compressor.Compress(payload, &packed));
  EXPECT_LT(packed.size(), 1000u);
  ASSERT_TRUE(decompressor.Decompress(packed, &plain).ok());
  EXPECT_EQ(plain, payload);
  // Data that does not get smaller stays as it is.
  EXPECT_FALSE(compressor.Compress(RandomBytes(1000, 1), &packed));
  // A decompression bomb: small in the stream, too large for a payload.
  ASSERT_TRUE(compressor.Compress(std::string(kMaxPayloadBytes + 1, 'a'), &packed));
  EXPECT_FALSE(decompressor.Decompress(packed, &plain).ok());
  EXPECT_FALSE(decompressor.Decompress("not zstd", &plain).ok());
  EXPECT_FALSE(decompressor.Decompress("", &plain).ok());
}

}  // namespace
}  // namespace rocattach
