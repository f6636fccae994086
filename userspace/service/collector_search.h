// Where the collector's file is.
#ifndef ROCATTACH_USERSPACE_SERVICE_COLLECTOR_SEARCH_H_
#define ROCATTACH_USERSPACE_SERVICE_COLLECTOR_SEARCH_H_

#include <string>

#include "absl/status/statusor.h"

namespace rocattach {

// The collector's file: as given, next to this program, in the build tree, or
// installed.
absl::StatusOr<std::string> FindCollector(const std::string& given);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_SERVICE_COLLECTOR_SEARCH_H_
