// The counter files that are compiled in (generated from counters/*.yaml).
#ifndef ROCATTACH_USERSPACE_COUNTERS_BUILTIN_H_
#define ROCATTACH_USERSPACE_COUNTERS_BUILTIN_H_

#include <vector>

namespace rocattach {

struct BuiltinCounterFile {
  const char* name;  // "gfx90a.yaml"
  const char* text;
};

std::vector<BuiltinCounterFile> BuiltinCounterFiles();

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_COUNTERS_BUILTIN_H_
