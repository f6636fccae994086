// Predicts what the seccomp filters of a thread would do while the collector is loaded.
#ifndef ROCATTACH_INJECTOR_PROCESS_SECCOMP_FILTER_H_
#define ROCATTACH_INJECTOR_PROCESS_SECCOMP_FILTER_H_

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "injector/failure.h"
#include "injector/stub/stub.h"

namespace rocattach {

// A filter as the kernel returns it: classic BPF. Nothing of it is trusted.
using SeccompProgram = std::vector<sock_filter>;

// Runs one filter for one call. Executes at most `*steps` instructions, and subtracts
// the number executed. INVALID_ARGUMENT if the kernel would not accept it as a filter,
// RESOURCE_EXHAUSTED when the steps are used up.
absl::StatusOr<uint32_t> RunSeccompProgram(absl::Span<const sock_filter> program,
                                           const seccomp_data& call, size_t* steps);

// The action for a call of a thread with these filters: the kernel takes the most
// severe one.
absl::StatusOr<uint32_t> SeccompAction(absl::Span<const SeccompProgram> filters,
                                       const seccomp_data& call, size_t* steps);

// kSeccompFilter if the filters would end the thread, or send it a signal, at a call
// that the stub, the loader or the collector makes; `in_call`: the thread is entered in
// a system call. A call that fails with an error is harmless, because the load then
// fails with a message, except for one: where the thread has restartable sequences
// (`has_rseq`), glibc ends the process if a new thread cannot have them.
StepResult CheckSeccompFilters(absl::Span<const SeccompProgram> filters, StubKind kind,
                               bool in_call = false, bool has_rseq = false);

// Reads filter number `index` of a thread, counted from the newest: 0 or an errno.
// ENOENT: there are no more.
using ReadSeccompFilter = std::function<int(uint32_t index, SeccompProgram* program)>;
// Reads it by PTRACE_SECCOMP_GET_FILTER. The thread must be stopped, and traced by the
// calling thread.
int ReadSeccompFilterOf(pid_t tid, uint32_t index, SeccompProgram* program);

// True if a thread that is stopped, and traced by the calling thread, has restartable
// sequences; also true on kernels before 5.13, which do not tell.
bool HasRseq(pid_t tid);

// Reads all filters and checks them. kSeccompFilter also if the thread has filters that
// cannot be read: without CAP_SYS_ADMIN, in a service that has a filter itself, on a
// kernel without CONFIG_CHECKPOINT_RESTORE. `has_filters` is called only if reading
// fails in such a way.
StepResult CheckSeccompOfThread(const ReadSeccompFilter& read,
                                const std::function<bool()>& has_filters, StubKind kind,
                                bool in_call = false, bool has_rseq = false);

}  // namespace rocattach

#endif  // ROCATTACH_INJECTOR_PROCESS_SECCOMP_FILTER_H_
