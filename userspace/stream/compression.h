// Compresses and decompresses one frame's payload with zstd, with bounded sizes.
#ifndef ROCATTACH_USERSPACE_STREAM_COMPRESSION_H_
#define ROCATTACH_USERSPACE_STREAM_COMPRESSION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace rocattach {

class Compressor {
 public:
  // `level`: from 1 (fast) to 19, as for zstd.
  explicit Compressor(int level);
  ~Compressor();
  Compressor(const Compressor&) = delete;
  Compressor& operator=(const Compressor&) = delete;

  // Replaces *out with the compressed payload. Returns false, with *out unspecified, if
  // that would not be smaller, or hardly.
  bool Compress(absl::string_view payload, std::string* out);

 private:
  int level_;
  ZSTD_CCtx_s* context_;
};

class Decompressor {
 public:
  Decompressor();
  ~Decompressor();
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;

  // Replaces *out. A payload that does not state its size, or states more than
  // kMaxPayloadBytes, is refused before any memory is allocated for it.
  absl::Status Decompress(absl::string_view payload, std::string* out);

 private:
  ZSTD_DCtx_s* context_;
};

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_COMPRESSION_H_
