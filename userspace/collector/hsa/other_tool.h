// Names another profiler in the process.
#ifndef ROCATTACH_USERSPACE_COLLECTOR_HSA_OTHER_TOOL_H_
#define ROCATTACH_USERSPACE_COLLECTOR_HSA_OTHER_TOOL_H_

#include <stddef.h>

#include "userspace/collector/hsa/api_tables.h"

namespace rocattach::collector {

// Writes the path of the library that contains another profiler: one that exports
// rocprofiler_configure, by which rocprofiler-sdk finds its tools, as ROCm's builds
// of PyTorch do; or else one whose functions are in the runtime's table instead of
// the runtime's own or ours. Writes an empty text if there is none. `core` is the
// live table, after hsa_init.
void NameOtherTool(const ApiTable* core, char* text, size_t bytes);

}  // namespace rocattach::collector

#endif  // ROCATTACH_USERSPACE_COLLECTOR_HSA_OTHER_TOOL_H_
