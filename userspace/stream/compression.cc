#include "userspace/stream/compression.h"

#include <zstd.h>

#include <new>

#include "absl/strings/str_cat.h"
#include "userspace/stream/frame.h"

namespace rocattach {

Compressor::Compressor(int level) : level_(level), context_(ZSTD_createCCtx()) {}

Compressor::~Compressor() {
  ZSTD_freeCCtx(context_);
}

bool Compressor::Compress(absl::string_view payload, std::string* out) {
  // Below this, it costs more than it saves.
  constexpr size_t kLeastBytes = 96;
  if (context_ == nullptr || payload.size() < kLeastBytes) return false;
  out->resize(ZSTD_compressBound(payload.size()));
  size_t size = ZSTD_compressCCtx(context_, out->data(), out->size(), payload.data(),
                                  payload.size(), level_);
  if (ZSTD_isError(size) || size >= payload.size()) return false;
  out->resize(size);
  return true;
}

Decompressor::Decompressor() : context_(ZSTD_createDCtx()) {}

Decompressor::~Decompressor() {
  ZSTD_freeDCtx(context_);
}

absl::Status Decompressor::Decompress(absl::string_view payload, std::string* out) {
  if (context_ == nullptr)
    return absl::ResourceExhaustedError("ZSTD_createDCtx failed");
  unsigned long long size = ZSTD_getFrameContentSize(payload.data(), payload.size());
  if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN) {
    return absl::DataLossError("compressed payload does not state its size");
  }
  if (size > kMaxPayloadBytes) {
    return absl::DataLossError(
        absl::StrCat("compressed payload claims ", size, " bytes"));
  }
  out->resize(size);
  size_t got = ZSTD_decompressDCtx(context_, out->data(), out->size(), payload.data(),
                                   payload.size());
  if (ZSTD_isError(got)) {
    return absl::DataLossError(
        absl::StrCat("ZSTD_decompressDCtx failed: ", ZSTD_getErrorName(got)));
  }
  out->resize(got);
  return absl::OkStatus();
}

}  // namespace rocattach
