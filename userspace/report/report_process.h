// One process in a report for users: its identity, its verdict and end, and what it
// ran.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_

#include <string>

#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"
#include "userspace/report/report_page.h"

namespace rocattach {

// "app (pid 12)", or the stream's number if its name is not known.
std::string ProcessName(const ProcessReport& process);

// Known and possible losses, and a death during the attach, as text; else empty.
std::string ProblemOf(const RecordingReport& recording, const ProcessReport& process);

void WriteProcess(const RecordingReport& recording, const ProcessReport& process,
                  const KernelGroups& groups, ReportPage* page);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_
