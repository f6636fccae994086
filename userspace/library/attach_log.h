// Messages of the attach library on its host's standard error.
#ifndef ROCATTACH_USERSPACE_LIBRARY_ATTACH_LOG_H_
#define ROCATTACH_USERSPACE_LIBRARY_ATTACH_LOG_H_

#include "absl/strings/string_view.h"

namespace rocattach {

// As in ROCATTACH_LOG_LEVEL: each level includes those before it.
enum class AttachLogLevel { kFatal, kError, kWarning, kInfo, kTrace };

// The level that a text names, in upper or lower case; warning for any other.
AttachLogLevel ParseLogLevel(absl::string_view text);

// Prints one line if ROCATTACH_LOG_LEVEL includes its level.
void AttachLog(AttachLogLevel level, absl::string_view text);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_LIBRARY_ATTACH_LOG_H_
