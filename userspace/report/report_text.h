// A report as text for users.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_TEXT_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_TEXT_H_

#include <cstddef>
#include <string>

#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"

namespace rocattach {

struct TextReportOptions {
  // Columns of the terminal; 0: no limit.
  size_t width = 0;
  bool color = false;
  // Kernels shown for a process; 0: all.
  size_t top = 10;
  // Processes shown of a recording, those with losses and failures first; 0: all.
  size_t limit = 50;
  // Adds a table of groups; null: none. Must outlive the call.
  const KernelGroups* groups = nullptr;
};

std::string FormatReport(const Report& report, const TextReportOptions& options);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_TEXT_H_
