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

/* The programs are compiled twice. The second object, with ROCATTACH_OLDER_KERNELS, is
 * for kernels without atomic operations that return a value and without typed pointers
 * to the current task: it reads the task through a helper, and lacks the yielding hold
 * mode, whose programs do not load there. */
#ifdef ROCATTACH_OLDER_KERNELS

static __always_inline struct task_struct* current_task(void) {
  return (struct task_struct*)bpf_get_current_task();
}
#define READ(source, ...) BPF_CORE_READ(source, __VA_ARGS__)

/* Not atomic: where one thread of several must win, begin_turn() comes before it. */
#define SWAP(place, from, to)       \
  ({                                \
    int same_ = *(place) == (from); \
    if (same_) *(place) = (to);     \
    same_;                          \
  })
#define TAKE_NUMBER(place) ((*(place))++)

#else

static __always_inline struct task_struct* current_task(void) {
  return bpf_get_current_task_btf();
}
/* READ(task, a, b): task->a->b. */
#define READ(source, ...) ___arrow(source, __VA_ARGS__)
/* Stores `to` if the place contains `from`; true if it did. */
#define SWAP(place, from, to) __sync_bool_compare_and_swap(place, from, to)
#define TAKE_NUMBER(place) __sync_fetch_and_add(place, 1)

#endif

/* The purposes for which threads of a process take turns: those of one purpose do not
 * wait for those of another. */
enum turn { TURN_CALL, TURN_CLAIM, TURN_REPORT };
struct turn_key {
  __u32 tgid;
  __u32 turn;
};

/* The processes with a thread between begin_turn() and end_turn(), which are called on
 * the same processor without sleeping in between. Used by the second object only. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, struct turn_key);
  __type(value, __u8);
} turns SEC(".maps");

/* False while another thread of the calling process has its turn: it was first. */
FRAME int begin_turn(__u32 turn) {
#ifdef ROCATTACH_OLDER_KERNELS
  struct turn_key key = {READ(current_task(), tgid), turn};
  __u8 one = 1;
  return bpf_map_update_elem(&turns, &key, &one, BPF_NOEXIST) == 0;
#else
  return 1;
#endif
}

FRAME int end_turn(__u32 turn) {
#ifdef ROCATTACH_OLDER_KERNELS
  struct turn_key key = {READ(current_task(), tgid), turn};
  bpf_map_delete_elem(&turns, &key);
#endif
  return 0;
}

#endif /* ROCATTACH_BPF_FRAME_H_ */
