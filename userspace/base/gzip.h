// Compression of a whole text.
#ifndef ROCATTACH_USERSPACE_BASE_GZIP_H_
#define ROCATTACH_USERSPACE_BASE_GZIP_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rocattach {

enum class GzipEffort { kFast, kDefault };

// A gzip file with `bytes`, of at most 4 GiB. RESOURCE_EXHAUSTED if there is no memory
// for it, or if there are more bytes.
absl::StatusOr<std::string> Gzip(absl::string_view bytes, GzipEffort effort);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_BASE_GZIP_H_
