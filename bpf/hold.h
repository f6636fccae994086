/* The yielding hold: a thread waits inside a sleepable probe. */
#ifndef ROCATTACH_BPF_HOLD_H_
#define ROCATTACH_BPF_HOLD_H_

#include "bpf/claims.h"
#include "bpf/policy.h"

/* include/linux/sched/jobctl.h: a ptrace stop (PTRACE_INTERRUPT) is pending. */
#define JOBCTL_TRAP_STOP (1ul << 19)
/* include/linux/sched/signal.h */
#define SIGNAL_GROUP_EXIT 0x4u
#define SIGKILL_BIT (1ul << (9 - 1))

/* The limit of a hold is wall-clock time, whatever the load. One case is not load: a
 * virtual machine that is paused, or whose CPU is taken away by its host, resumes with
 * its clock far ahead, and the thread would have had none of that time without us
 * either. The thread's own accounting shows this. A round takes some microseconds of
 * CPU time at most, so if a round took long and the thread neither slept nor waited for
 * a CPU, the CPU was paused: that counts as a quarter of the limit at most. */
#define LONGEST_ROUND(limit_ns) ((limit_ns) / 4)

struct hold {
  __u64 left_ns;   /* until the deadline */
  __u64 round_ns;  /* time of the last round; 0 before the first */
  __u64 waited_ns; /* the thread's total wait for a CPU by then */
  __u64 stack;
  __u32 sleeps; /* number of times that it had slept by then */
  __u32 rounds;
  __u16 follower; /* waits for the thread that opened the window */
  __u16 end;      /* enum rocattach_hold_end, 0 while holding */
};

/* A SIGKILL, or another thread's exit_group, must not wait for us. */
static __always_inline int is_dying(struct task_struct* task) {
  struct signal_struct* signal = task->signal;
  return (task->pending.signal.sig[0] & SIGKILL_BIT) ||
         (signal->shared_pending.signal.sig[0] & SIGKILL_BIT) ||
         (signal->flags & SIGNAL_GROUP_EXIT);
}

/* The part of the time since the last round in which the machine ran. */
static __always_inline __u64 moving_time(struct hold* h, __u64 spent_ns,
                                         __u64 longest_ns) {
  struct task_struct* task = current_task();
  const __u32 sleeps = (__u32)task->nvcsw;
  const int slept = sleeps != h->sleeps;
  __u64 all_ns, waited_ns;
  h->sleeps = sleeps;
  /* Without this account (CONFIG_SCHED_INFO) all of the time counts. */
  if (!bpf_core_field_exists(task->sched_info.run_delay)) return spent_ns;
  all_ns = task->sched_info.run_delay;
  waited_ns = all_ns - h->waited_ns;
  h->waited_ns = all_ns;
  if (slept || spent_ns <= longest_ns || spent_ns - longest_ns <= waited_ns)
    return spent_ns;
  return waited_ns + longest_ns;
}

/* Subtracts the time since the last round from what is left; true if nothing is. */
static __always_inline int is_over(struct hold* h) {
  __u64 now_ns = bpf_ktime_get_boot_ns();
  __u64 spent_ns = h->round_ns ? now_ns - h->round_ns : 0;
  h->round_ns = now_ns;
  spent_ns = moving_time(h, spent_ns, LONGEST_ROUND(settings.limit_ns));
  if (spent_ns >= h->left_ns) return 1;
  h->left_ns -= spent_ns;
  return 0;
}

/* One round of the hold. One byte of the thread's own stack is read only for the
 * resched point in that read: the thread yields its CPU even on a kernel without
 * preemption, so the service can run on it. A read that fails may not have reached that
 * point. */
static long hold_round(__u32 index, struct hold* h) {
  struct task_struct* task = current_task();
  struct rocattach_claim* claim;
  char byte;
  ++h->rounds;
  if (task->jobctl & JOBCTL_TRAP_STOP) {
    h->end = ROCATTACH_HOLD_STOPPED;
    return 1;
  }
  if (is_dying(task)) {
    h->end = ROCATTACH_HOLD_KILLED;
    return 1;
  }
  claim = h->follower ? awaited_claim() : my_claim();
  if (service.gone || !claim || claim->state == ROCATTACH_CLAIM_RELEASED ||
      (h->follower && claim->state != ROCATTACH_CLAIM_OPEN)) {
    h->end = ROCATTACH_HOLD_RELEASED;
    return 1;
  }
  if (is_unserved()) {
    h->end = ROCATTACH_HOLD_UNSERVED;
    return 1;
  }
  if (is_over(h)) {
    h->end = ROCATTACH_HOLD_DEADLINE;
    return 1;
  }
  if (bpf_copy_from_user_task(&byte, sizeof(byte), (void*)h->stack, task, 0) &&
      !is_dying(task)) {
    h->end = ROCATTACH_HOLD_UNYIELDING;
    return 1;
  }
  return 0;
}

FRAME int notify_hold_end(__u64 opened_ns, __u32 end, __u32 rounds) {
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_HOLD_END);
  if (!e) return 0;
  e->mode = end;
  e->hold_end.held_ns = e->time_ns - opened_ns;
  e->hold_end.rounds = rounds;
  e->hold_end.window_ns = opened_ns;
  /* A thread that is about to stop must not be preempted by a thread that wakes up for
   * this: the tracer is awake, and more events will follow. */
  bpf_ringbuf_submit(e, end == ROCATTACH_HOLD_STOPPED ? BPF_RB_NO_WAKEUP : 0);
  return 0;
}

/* bpf_loop has its own limit, which an idle CPU reaches in some 4 s. */
#define ROUNDS (1 << 23)

static long hold_rounds(__u32 index, struct hold* h) {
  bpf_loop(ROUNDS, hold_round, h, 0);
  return h->end != 0;
}

/* Always 0, but not known to the verifier: it would otherwise expand the loop with
 * these flags inline, and take 24 bytes of its function's frame (bpf/frame.h). */
volatile __u64 no_flags = 0;

/* include/uapi/linux/sched.h, include/uapi/asm-generic/resource.h */
#define SCHED_FIFO 1u
#define SCHED_RR 2u
#define RLIMIT_RTTIME 15
#define NO_LIMIT (~0ul)

/* The longest hold permitted. A real-time thread that has run for RLIMIT_RTTIME
 * microseconds without sleeping gets SIGXCPU; a hold takes at most half of that. */
FRAME __u64 longest_hold(__u64 limit_ns) {
  struct task_struct* task = current_task();
  __u64 allowed;
  if (task->policy != SCHED_FIFO && task->policy != SCHED_RR) return limit_ns;
  allowed = BPF_CORE_READ(task, signal, rlim[RLIMIT_RTTIME].rlim_cur);
  if (allowed == NO_LIMIT || allowed >= limit_ns / 500) return limit_ns;
  return allowed * 500;
}

/* Holds the calling thread for at most `limit_ns`; returns the reason for the end of
 * the hold, and in the upper half the number of rounds. */
FRAME __u64 hold_thread(__u64 stack, __u64 limit_ns, __u32 follower) {
  struct hold h = {};
  h.left_ns = longest_hold(limit_ns);
  h.stack = stack;
  h.follower = (__u16)follower;
  bpf_loop(ROUNDS, hold_rounds, &h, no_flags);
  return (__u64)h.rounds << 32 | h.end;
}

#endif /* ROCATTACH_BPF_HOLD_H_ */
