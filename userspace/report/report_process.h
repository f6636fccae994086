// One process in a report for people: who it was, what became of it, what it ran.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_

#include <string>

#include "userspace/report/report.h"
#include "userspace/report/report_page.h"

namespace rocattach {

// "app (pid 12)", or the stream's number where its name is not known.
std::string ProcessName(const ProcessReport& process);

// What is lost of it, or may be, and whether the attach may have killed it; empty if
// nothing is.
std::string ProblemOf(const RecordingReport& recording, const ProcessReport& process);

void WriteProcess(const RecordingReport& recording, const ProcessReport& process,
                  ReportPage* page);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_PROCESS_H_
