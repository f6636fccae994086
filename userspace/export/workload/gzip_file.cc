#include "userspace/export/workload/gzip_file.h"

#include <zlib.h>

#include <algorithm>
#include <limits>

#include "userspace/base/status_macros.h"

namespace rocattach {
namespace {

constexpr size_t kPieceBytes = 32 << 10;

}  // namespace

struct GzipFile::Stream {
  z_stream z = {};
};

absl::StatusOr<std::unique_ptr<GzipFile>> GzipFile::Create(
    std::string path, const ExportOptions& options) {
  constexpr int kGzipWindow = 15 + 16;
  constexpr int kMemoryLevel = 8;
  ASSIGN_OR_RETURN(auto file, OutputFile::Create(std::move(path), options));
  auto stream = std::make_unique<Stream>();
  if (deflateInit2(&stream->z, Z_BEST_SPEED, Z_DEFLATED, kGzipWindow, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("no memory to compress " + file->name());
  }
  return std::unique_ptr<GzipFile>(new GzipFile(std::move(file), std::move(stream)));
}

GzipFile::GzipFile(std::unique_ptr<OutputFile> file, std::unique_ptr<Stream> stream)
    : file_(std::move(file)), stream_(std::move(stream)) {}

GzipFile::~GzipFile() {
  deflateEnd(&stream_->z);
}

absl::Status GzipFile::Compress(absl::string_view text, int flush) {
  z_stream& z = stream_->z;
  // zlib does not write to its input.
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  int result = Z_OK;
  do {
    std::string* out = file_->buffer();
    const size_t before = out->size();
    out->resize(before + kPieceBytes);
    z.next_out = reinterpret_cast<Bytef*>(out->data() + before);
    z.avail_out = kPieceBytes;
    result = deflate(&z, flush);
    out->resize(before + kPieceBytes - z.avail_out);
    if (result == Z_STREAM_ERROR) {
      return absl::InternalError("cannot compress " + file_->name());
    }
    RETURN_IF_ERROR(file_->WriteIfFull());
  } while (z.avail_out == 0 || (flush == Z_FINISH && result != Z_STREAM_END));
  return absl::OkStatus();
}

absl::Status GzipFile::Append(absl::string_view text) {
  while (!text.empty()) {
    const absl::string_view piece =
        text.substr(0, std::numeric_limits<uInt>::max() / 2);
    RETURN_IF_ERROR(Compress(piece, Z_NO_FLUSH));
    text.remove_prefix(piece.size());
  }
  return absl::OkStatus();
}

absl::Status GzipFile::Stop() {
  RETURN_IF_ERROR(Compress("", Z_FINISH));
  return file_->Flush();
}

absl::Status GzipFile::Complete() {
  RETURN_IF_ERROR(Compress("", Z_FINISH));
  return file_->Complete();
}

}  // namespace rocattach
