#include "userspace/stream/frame.h"

#include <endian.h>

#include <cstring>

#include "userspace/stream/crc32c.h"

namespace rocattach {
namespace {

constexpr size_t kHeaderCrcOffset = 28;

void PutWord(uint32_t value, char* out) {
  value = htole32(value);
  memcpy(out, &value, sizeof(value));
}

uint32_t GetWord(const char* in) {
  uint32_t value;
  memcpy(&value, in, sizeof(value));
  return le32toh(value);
}

}  // namespace

void EncodeFrameHeader(const FrameHeader& header, char* out) {
  memcpy(out, kFrameMagic, sizeof(kFrameMagic));
  out[4] = static_cast<char>(header.version);
  out[5] = static_cast<char>(header.type);
  out[6] = static_cast<char>(header.codec);
  out[7] = static_cast<char>(header.flags);
  PutWord(header.payload_bytes, out + 8);
  PutWord(header.payload_crc, out + 12);
  PutWord(header.stream_id, out + 16);
  PutWord(header.sequence, out + 20);
  PutWord(header.records, out + 24);
  PutWord(Crc32c(absl::string_view(out, kHeaderCrcOffset)), out + kHeaderCrcOffset);
}

std::optional<FrameHeader> DecodeFrameHeader(const char* bytes) {
  if (memcmp(bytes, kFrameMagic, sizeof(kFrameMagic)) != 0) return std::nullopt;
  if (GetWord(bytes + kHeaderCrcOffset) !=
      Crc32c(absl::string_view(bytes, kHeaderCrcOffset))) {
    return std::nullopt;
  }
  FrameHeader header;
  header.version = static_cast<uint8_t>(bytes[4]);
  header.type = static_cast<uint8_t>(bytes[5]);
  header.codec = static_cast<uint8_t>(bytes[6]);
  header.flags = static_cast<uint8_t>(bytes[7]);
  header.payload_bytes = GetWord(bytes + 8);
  header.payload_crc = GetWord(bytes + 12);
  header.stream_id = GetWord(bytes + 16);
  header.sequence = GetWord(bytes + 20);
  header.records = GetWord(bytes + 24);
  if (header.payload_bytes > kMaxPayloadBytes) return std::nullopt;
  return header;
}

void BuildFrame(FrameHeader header, absl::string_view payload, std::string* out) {
  size_t padded = PaddedBytes(payload.size());
  out->resize(kFrameHeaderBytes + padded);
  char* body = out->data() + kFrameHeaderBytes;
  if (!payload.empty()) memcpy(body, payload.data(), payload.size());
  memset(body + payload.size(), 0, padded - payload.size());
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  header.payload_crc = Crc32c(absl::string_view(body, padded));
  EncodeFrameHeader(header, out->data());
}

}  // namespace rocattach
