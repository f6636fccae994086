// Numbers as files of sysfs and /proc contain them.
#ifndef ROCATTACH_USERSPACE_GPUS_NUMBER_FILE_H_
#define ROCATTACH_USERSPACE_GPUS_NUMBER_FILE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace rocattach {

// The number in `text`, which may have a line end. Unset if it is not a number.
std::optional<uint64_t> NumberIn(absl::string_view text);
// The number that a small file contains; unset if it cannot be read or contains none.
std::optional<uint64_t> ReadNumber(const std::string& path);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_GPUS_NUMBER_FILE_H_
