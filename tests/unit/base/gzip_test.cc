#include "userspace/base/gzip.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <random>

namespace rocattach {
namespace {

// Decompresses a file in the way of any reader of gzip files.
std::string Inflate(const std::string& file) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(file.data()));
  stream.avail_in = static_cast<uInt>(file.size());
  std::string out;
  int result = Z_OK;
  while (result == Z_OK) {
    char buffer[4096];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof(buffer);
    result = inflate(&stream, Z_NO_FLUSH);
    out.append(buffer, sizeof(buffer) - stream.avail_out);
  }
  EXPECT_EQ(result, Z_STREAM_END);
  EXPECT_EQ(stream.avail_in, 0u);  // a single member, with nothing after it
  inflateEnd(&stream);
  return out;
}

TEST(Gzip, DecompressedTextEqualsTheOriginal) {
  std::string random;
  std::mt19937 generator(1);
  for (int i = 0; i < 100'000; ++i) random.push_back(static_cast<char>(generator()));
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(1 << 20, 'x'), random}) {
    for (const GzipEffort effort : {GzipEffort::kFast, GzipEffort::kDefault}) {
      const auto file = Gzip(text, effort);
      ASSERT_TRUE(file.ok()) << file.status();
      EXPECT_EQ(Inflate(*file), text);
    }
  }
}

TEST(Gzip, MoreEffortMakesTextSmaller) {
  std::string text;
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i * i) + ",";
  EXPECT_LT(Gzip(text, GzipEffort::kDefault)->size(),
            Gzip(text, GzipEffort::kFast)->size());
}

}  // namespace
}  // namespace rocattach
