// Counter files: those that are compiled in, and the reading of our own format (see
// definitions/*.yaml) and of the one that rocprofv3 takes with --extra-counters.
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

// True for 1 to 63 letters, digits and underscores, not starting with a digit: such a
// name fits into the plan's table, and every tool accepts it.
bool IsCounterName(absl::string_view name);

// The counter files that are compiled in (generated from definitions/*.yaml).
struct BuiltinCounterFile {
  const char* name;  // "gfx90a.yaml"
  const char* text;
};

std::vector<BuiltinCounterFile> BuiltinCounterFiles();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_DEFINITION_FILE_H_
