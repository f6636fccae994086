// The tables of a process's report.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_TABLES_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_TABLES_H_

#include <cstdint>
#include <string>

#include "userspace/report/kernel_groups.h"
#include "userspace/report/report.h"
#include "userspace/report/report_page.h"

namespace rocattach {

// A GPU as in --gpu: its number among the GPUs of the process, from 0. An agent that
// is not in the recording is named by its id.
std::string GpuNumber(const ProcessReport& process, uint32_t agent_id);

// Each writes nothing if there is nothing to write.
void WriteGroups(const ProcessReport& process, const KernelGroups& groups,
                 ReportPage* page);
void WriteKernels(const ProcessReport& process, ReportPage* page);
void WriteCopies(const ProcessReport& process, ReportPage* page);
// A plan's values by kernel, and those of whole GPUs.
void WriteCounters(const PlanReport& plan, ReportPage* page);
void WriteSamples(const ProcessReport& process, const PlanReport& plan,
                  ReportPage* page);
void WriteMemory(const ProcessReport& process, ReportPage* page);
void WriteApiCalls(const ProcessReport& process, ReportPage* page);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_TABLES_H_
