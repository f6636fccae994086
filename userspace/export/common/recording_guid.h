// Identifiers of a process in rocpd, and in outputs that are derived from it.
#ifndef ROCATTACH_USERSPACE_EXPORT_COMMON_RECORDING_GUID_H_
#define ROCATTACH_USERSPACE_EXPORT_COMMON_RECORDING_GUID_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "userspace/export/common/export_process.h"

namespace rocattach {

// The same for a text everywhere; not negative, because SQLite's integers are signed.
int64_t StableHash(absl::string_view text);

// A version 7 UUID with this time and these 74 bits.
std::string UuidV7(uint64_t unix_ms, uint64_t high, uint64_t low);

// A version 7 UUID with the time of the process and its place in its recording. The
// same in every conversion.
std::string RecordingGuid(const ExportProcess& process);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_EXPORT_COMMON_RECORDING_GUID_H_
