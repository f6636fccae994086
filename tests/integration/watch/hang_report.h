// Shows why a test hangs: the stacks of the processes that it waits for. ctest ends a
// hanging test without a message, and a hang in one of thousands of runs may not recur.
#ifndef ROCATTACH_TESTS_INTEGRATION_WATCH_HANG_REPORT_H_
#define ROCATTACH_TESTS_INTEGRATION_WATCH_HANG_REPORT_H_

#include <sys/types.h>

namespace rocattach::testing_support {

// Longer than any test waits if all is well; no time limit of ctest is shorter.
inline constexpr int kHangMsec = 200'000;

// Writes the stacks of all threads of the processes that this one has started to
// standard error. Needs gdb for the stacks in user space.
void ReportHang();

// Waits until the descriptor is readable; after kHangMsec it reports the hang, once.
void AwaitReadable(int fd, bool* reported);
// The same for the end of a process.
void AwaitEnd(pid_t pid, bool* reported);

}  // namespace rocattach::testing_support

#endif  // ROCATTACH_TESTS_INTEGRATION_WATCH_HANG_REPORT_H_
