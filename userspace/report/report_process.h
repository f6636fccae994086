// One process in a report for people: who it was, what became of it, what it ran.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_

#include "userspace/report/report.h"
#include "userspace/report/report_page.h"

namespace rocattach {

void WriteProcess(const RecordingReport& recording, const ProcessReport& process,
                  ReportPage* page);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_
