// The tables of a process's report.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_TABLES_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_TABLES_H_

#include "userspace/report/report.h"
#include "userspace/report/report_page.h"

namespace rocattach {

// Each writes nothing where there is nothing.
void WriteKernels(const ProcessReport& process, ReportPage* page);
void WriteCopies(const ProcessReport& process, ReportPage* page);
// A plan's values, kernel by kernel, and those of whole GPUs.
void WriteCounters(const PlanReport& plan, ReportPage* page);
void WriteSamples(const PlanReport& plan, ReportPage* page);
void WriteApiCalls(const ProcessReport& process, ReportPage* page);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_TABLES_H_
