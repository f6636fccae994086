#include "userspace/base/gzip.h"

#include <zlib.h>

#include <limits>

#include "absl/strings/str_cat.h"

namespace rocattach {
namespace {

constexpr int kGzipWindow = 15 + 16;  // 16: with the header and trailer of gzip
constexpr int kMemoryLevel = 8;       // zlib's default

}  // namespace

absl::StatusOr<std::string> Gzip(absl::string_view bytes, GzipEffort effort) {
  z_stream stream = {};
  const int level = effort == GzipEffort::kFast ? Z_BEST_SPEED : Z_DEFAULT_COMPRESSION;
  if (deflateInit2(&stream, level, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("deflateInit2() failed: no memory");
  }
  const uLong bound = deflateBound(&stream, bytes.size());
  if (bound > std::numeric_limits<uInt>::max()) {
    deflateEnd(&stream);
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot compress ", bytes.size(), " bytes at once"));
  }
  std::string out(bound, '\0');
  // zlib does not write to its input.
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) {
    return absl::InternalError(absl::StrCat("deflate(", bytes.size(),
                                            " bytes) failed: zlib's result ", result));
  }
  return out;
}

}  // namespace rocattach
