/* The minimum of a hold inside a probe: one event, then a wait for a ptrace stop. No
 * claim, no policy, no layout. */
#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "tests/bench/watch/empty_tracer.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* include/linux/sched/jobctl.h: a ptrace stop (PTRACE_INTERRUPT) is pending. */
#define JOBCTL_TRAP_STOP (1ul << 19)
#define LONGEST_HOLD_NS 500000000ull
#define ROUNDS (1 << 23)

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 64 * 1024);
} hits SEC(".maps");

struct wait {
  __u64 until_ns;
  __u64 stack;
};

/* Reading the thread's own stack contains a point at which the kernel reschedules. */
static long wait_round(__u32 index, struct wait* w) {
  struct task_struct* task = bpf_get_current_task_btf();
  char byte;
  if (task->jobctl & JOBCTL_TRAP_STOP) return 1;
  if (bpf_ktime_get_boot_ns() >= w->until_ns) return 1;
  return bpf_copy_from_user_task(&byte, sizeof(byte), (void*)w->stack, task, 0) != 0;
}

/* Set for each launch: later calls of a program are ignored. */
__u32 armed;

SEC("uprobe.s")
int enter(struct pt_regs* ctx) {
  struct wait w;
  struct hit* h;
  if (!__sync_val_compare_and_swap(&armed, 1, 0)) return 0;
  h = bpf_ringbuf_reserve(&hits, sizeof(*h), 0);
  if (!h) return 0;
  h->time_ns = bpf_ktime_get_boot_ns();
  h->tid = (__u32)bpf_get_current_pid_tgid();
  h->pad = 0;
  w.until_ns = h->time_ns + LONGEST_HOLD_NS;
  w.stack = ctx->sp;
  bpf_ringbuf_submit(h, BPF_RB_FORCE_WAKEUP);
  bpf_loop(ROUNDS, wait_round, &w, 0);
  return 0;
}
