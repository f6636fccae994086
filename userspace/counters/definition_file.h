// Reads counter files: our own format (see counters/*.yaml) and the one that
// rocprofv3 takes with --extra-counters.
#ifndef ROCATTACH_USERSPACE_COUNTERS_DEFINITION_FILE_H_
#define ROCATTACH_USERSPACE_COUNTERS_DEFINITION_FILE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "userspace/counters/definition.h"
#include "userspace/counters/document.h"

namespace rocattach {

// One entry per group of architectures. Unknown keys, names that are not words and
// numbers out of range are errors that name `source` and the place.
absl::StatusOr<std::vector<CounterDefinitions>> ReadCounterDefinitions(
    const Document& document, absl::string_view source);

// 1 to 63 letters, digits and underscores, not starting with a digit: what the plan's
// table holds and every tool accepts.
bool IsCounterName(absl::string_view name);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_DEFINITION_FILE_H_
