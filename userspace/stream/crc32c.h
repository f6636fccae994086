// CRC-32C (Castagnoli), the checksum of frames. Debian 12's Abseil has none.
#ifndef ROCATTACH_USERSPACE_STREAM_CRC32C_H_
#define ROCATTACH_USERSPACE_STREAM_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace rocattach {

// Returns the checksum of `data`; uses the CPU's instruction if it has one.
uint32_t Crc32c(absl::string_view data);

// The same, computed from tables on any CPU. Tests compare the two.
uint32_t Crc32cPortable(absl::string_view data);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_CRC32C_H_
