// A report for programs.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_JSON_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_JSON_H_

#include <string>

#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"

namespace rocattach {

// One JSON object, followed by a newline. Durations are nanoseconds, names are those
// of the stream's messages; docs/stream-format.md lists the keys. It has all kernels,
// and their groups if `groups` has any.
std::string FormatReportJson(const Report& report, const KernelGroups& groups = {});

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_JSON_H_
