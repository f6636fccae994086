// The content of gzip files in memory, for tests.
#ifndef ROCATTACH_TESTS_UNIT_EXPORT_UNZIPPED_H_
#define ROCATTACH_TESTS_UNIT_EXPORT_UNZIPPED_H_

#include <gtest/gtest.h>
#include <zlib.h>

#include <string>

namespace rocattach {

// The content must not exceed 1 MiB.
inline std::string Unzipped(const std::string& bytes) {
  z_stream stream = {};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  std::string out(1 << 20, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  out.resize(stream.total_out);
  inflateEnd(&stream);
  return out;
}

}  // namespace rocattach

#endif  // ROCATTACH_TESTS_UNIT_EXPORT_UNZIPPED_H_
