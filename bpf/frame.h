/* Common to all parts of the BPF programs. */
#ifndef ROCATTACH_BPF_FRAME_H_
#define ROCATTACH_BPF_FRAME_H_

#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/watch_events.h"

/* No function here may use 64 bytes of stack or more. From Linux 6.13 on, functions
 * that do get a private stack, one per CPU, and uprobe programs have it too:
 *   1. Program A sleeps, or is preempted, inside a helper.
 *   2. On the same CPU, program B of another process runs the same function.
 *   3. A goes on, with B's variables in its frame.
 * Smaller frames stay on the kernel stack. That is why the work is split into functions
 * that are not inlined. Checked by tests/integration/watch/frames_test.cc. */
#define FRAME static __noinline

#endif /* ROCATTACH_BPF_FRAME_H_ */
