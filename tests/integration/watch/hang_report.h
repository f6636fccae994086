// Why a test waits: where the processes stand that it waits for. ctest ends a test that
// hangs without a word, and what happens once in thousands of runs is not to be repeated.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_HANG_REPORT_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_HANG_REPORT_H_

#include <sys/types.h>

namespace rocattach::testing_support {

// No test waits for as long without cause, and ctest ends none sooner.
inline constexpr int kHangMsec = 200'000;

// Writes to standard error: the stacks of all threads of the processes that this one has
// started. Needs gdb for those in user space.
void ReportHang();

// poll() of one descriptor until it can be read; reports once if that takes kHangMsec.
void AwaitReadable(int fd, bool* reported);
// The same until the process has ended.
void AwaitEnd(pid_t pid, bool* reported);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_HANG_REPORT_H_
