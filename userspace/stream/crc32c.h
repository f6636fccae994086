// CRC-32C (Castagnoli), the checksum of frames. Debian 12's Abseil has none.
#ifndef ROCATTACH_USERSPACE_STREAM_CRC32C_H_
#define ROCATTACH_USERSPACE_STREAM_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace rocattach {

// The checksum of `data`; the processor's instruction where there is one.
uint32_t Crc32c(absl::string_view data);

// The same from tables, on any processor. Tests compare the two.
uint32_t Crc32cPortable(absl::string_view data);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_STREAM_CRC32C_H_
