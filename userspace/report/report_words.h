// Phrases of a report for users.
#ifndef ROCATTACH_USERSPACE_REPORT_REPORT_WORDS_H_
#define ROCATTACH_USERSPACE_REPORT_REPORT_WORDS_H_

#include <cstdint>
#include <string>

#include "userspace/report/report.h"

namespace rocattach {

// "1 copy", "1,234 copies".
std::string Plural(uint64_t count, const char* one, const char* many);
// "12.3 %"; "-" if `whole` is 0.
std::string Percent(uint64_t part, uint64_t whole);
// A time in UTC, from a recording's clock snapshot; "" if it is not known.
std::string WallTime(const v1::ClockSnapshot& clock, uint64_t boottime_ns);
// "exited with status 0", "killed by SIGSEGV".
std::string EndText(const v1::ProcessEnd& end);
// The reason why a process was not held.
std::string WindowModeText(v1::WindowMode mode);
// The end of a hold, to follow "held 250 ms in the probe"; "" if all went well.
std::string HoldEndText(v1::HoldEnd end);
// "host to device".
std::string DirectionText(v1::CopyDirection direction);
// "allocated", "scratch freed".
std::string MemoryText(v1::MemoryOperation operation);
// The command line, safe for terminals, with quotes around arguments with blanks; the
// executable if it is not known.
std::string CommandText(const v1::Process& process);
// The kernel's name, safe for terminals, or the reason why it is missing.
std::string KernelText(const KernelReport& kernel);

}  // namespace rocattach

#endif  // ROCATTACH_USERSPACE_REPORT_REPORT_WORDS_H_
