#include "userspace/export/common/recording_guid.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rocattach {

int64_t StableHash(absl::string_view text) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  }
  return static_cast<int64_t>(hash >> 1);
}

std::string UuidV7(uint64_t unix_ms, uint64_t high, uint64_t low) {
  return absl::StrFormat("%08x-%04x-7%03x-%04x-%012x", unix_ms >> 16 & 0xffffffff,
                         unix_ms & 0xffff, high & 0xfff, 0x8000 | (high >> 12 & 0x3fff),
                         low & 0xffffffffffff);
}

std::string RecordingGuid(const ExportProcess& process) {
  const v1::StreamHeader& header = process.header();
  const uint64_t begin = process.RealtimeNs(
      std::max(process.process().start_ns(), header.clock().boottime_ns()));
  const std::string identity =
      absl::StrCat(header.recording_id(), ":", process.stream(), ":", process.pid());
  return UuidV7(begin / 1'000'000, static_cast<uint64_t>(StableHash(identity)),
                static_cast<uint64_t>(StableHash(identity + "'")));
}

}  // namespace rocattach
