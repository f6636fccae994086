/* The kernel side of the attach window: one probe on hsa_init, one on the collector's
 * report, and the ends of the processes whose windows were seen. */
#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#include "bpf/watch_events.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* include/linux/sched/jobctl.h: a ptrace stop (PTRACE_INTERRUPT) is pending. */
#define JOBCTL_TRAP_STOP (1ul << 19)
/* include/linux/sched/signal.h */
#define SIGNAL_GROUP_EXIT 0x4u
#define SIGKILL_BIT (1ul << (9 - 1))
#define SIGSTOP 19
/* include/linux/ptrace.h */
#define PT_PTRACED 1u

/* CLAIM_FORGOTTEN keeps the process known, so that its end is still reported, while its
 * next hsa_init opens a window again. While a claim is open, other threads that enter
 * hsa_init wait too: if one of them overtook, the runtime would be loaded without the
 * collector. */
enum claim_state {
  CLAIM_OPEN = 0,     /* held; the collector is on its way */
  CLAIM_RELEASED = 1, /* let go: not wanted, failed, too late */
  CLAIM_FORGOTTEN = 2,
  CLAIM_READY = 3, /* the collector has reported in */
};

/* One process: a pid is reused, a pid with its start time is not. */
struct claim_key {
  __u32 tgid;
  __u32 pad;
  __u64 start_ns;
};

struct claim {
  __u32 state; /* enum claim_state; the service may set CLAIM_RELEASED */
  __u32 tid;   /* the thread that opened the window */
  __u64 opened_ns;
};

struct comm_key {
  char comm[ROCATTACH_COMM_BYTES];
};

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 256 * 1024);
} events SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, struct claim_key);
  __type(value, struct claim);
} claims SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct rocattach_settings);
} settings SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct rocattach_bpf_stats);
} stats SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1024);
  __type(key, struct comm_key);
  __type(value, __u8);
} deny_comm SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1024);
  __type(key, __u32);
  __type(value, __u8);
} deny_uid SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1024);
  __type(key, __u64);
  __type(value, __u8);
} deny_cgroup SEC(".maps");

/* The attach cookie: bpf_get_attach_cookie is missing before 5.15; the number of the
 * library copy is then 0 and the service finds the copy by the address. */
static __always_inline struct rocattach_bpf_stats* my_stats(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&stats, &zero);
}

#define COUNT(field)                             \
  do {                                           \
    struct rocattach_bpf_stats* s_ = my_stats(); \
    if (s_) __sync_fetch_and_add(&s_->field, 1); \
  } while (0)

static __always_inline void make_key(struct task_struct* task, struct claim_key* key) {
  key->tgid = BPF_CORE_READ(task, tgid);
  key->pad = 0;
  key->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
}

/* The process's number in its innermost pid namespace. */
static __always_inline __u32 inner_number(struct task_struct* task) {
  struct pid* pid = BPF_CORE_READ(task, thread_pid);
  unsigned int level = BPF_CORE_READ(pid, level);
  struct upid upid = {};
  /* numbers[] is a flexible array: the offset of element `level` is computed here,
   * because CO-RE relocates the array's start and the element's size. */
  level &= 31;
  bpf_core_read(&upid.nr, sizeof(upid.nr),
                (void*)pid + bpf_core_field_offset(struct pid, numbers) +
                    level * bpf_core_type_size(struct upid) +
                    bpf_core_field_offset(struct upid, nr));
  return upid.nr;
}

static __always_inline struct rocattach_event* new_event(struct task_struct* task,
                                                         __u32 type) {
  struct rocattach_event* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) {
    COUNT(lost);
    return 0;
  }
  e->version = ROCATTACH_EVENT_VERSION;
  e->size = sizeof(*e);
  e->type = type;
  e->time_ns = bpf_ktime_get_boot_ns();
  e->pid = BPF_CORE_READ(task, tgid);
  e->tid = BPF_CORE_READ(task, pid);
  e->inner_pid = inner_number(BPF_CORE_READ(task, group_leader));
  e->inner_tid = inner_number(task);
  e->start_ns = BPF_CORE_READ(task, group_leader, start_boottime);
  e->cgroup_id = bpf_get_current_cgroup_id();
  e->uid = BPF_CORE_READ(task, cred, euid.val);
  e->mode = 0;
  e->cookie = 0;
  e->ip = 0;
  e->args[0] = e->args[1] = e->args[2] = 0;
  bpf_core_read_str(e->comm, sizeof(e->comm), &task->comm);
  return e;
}

static __always_inline int is_denied(struct task_struct* task) {
  struct comm_key comm = {};
  __u32 uid = BPF_CORE_READ(task, cred, euid.val);
  __u64 cgroup = bpf_get_current_cgroup_id();
  bpf_core_read_str(comm.comm, sizeof(comm.comm), &task->comm);
  return bpf_map_lookup_elem(&deny_uid, &uid) ||
         bpf_map_lookup_elem(&deny_comm, &comm) ||
         bpf_map_lookup_elem(&deny_cgroup, &cgroup);
}

/* True if the process `tgid` is among the task's ancestors. */
static __always_inline int is_below(struct task_struct* task, __u32 tgid) {
  for (int i = 0; i < 64; ++i) {
    __u32 ancestor = BPF_CORE_READ(task, tgid);
    if (ancestor == tgid) return 1;
    if (ancestor <= 1) return 0;
    task = BPF_CORE_READ(task, real_parent);
  }
  return 0;
}

/* How this window is met, before anything is done about it. */
static __always_inline __u32 window_mode(struct task_struct* task,
                                         struct rocattach_settings* set,
                                         __u32 hold_mode) {
  if (set->paused) return ROCATTACH_WINDOW_PAUSED;
  if (set->only_below && !is_below(task, set->only_below))
    return ROCATTACH_WINDOW_UNRELATED;
  if (is_denied(task)) return ROCATTACH_WINDOW_DENIED;
  if (set->only_uid_set && BPF_CORE_READ(task, cred, euid.val) != set->only_uid)
    return ROCATTACH_WINDOW_DENIED;
  if (!set->hold) return ROCATTACH_WINDOW_REPORTED;
  return hold_mode;
}

struct hold {
  struct claim_key key;
  __u32 follower; /* waits for the thread that opened the window */
  __u32 pad;
  __u64 deadline_ns;
  __u64 opened_ns;
  __u64 stack;
  __u32 end; /* enum rocattach_hold_end, 0 while holding */
  __u32 rounds;
};

/* One round of the hold. The read of one byte of the thread's own stack is there for
 * its resched point: the thread gives its CPU away even on a kernel without preemption,
 * so the service can run on it. */
static long hold_round(__u32 index, struct hold* h) {
  struct task_struct* task = bpf_get_current_task_btf();
  char byte;
  h->rounds = index;
  if (BPF_CORE_READ(task, jobctl) & JOBCTL_TRAP_STOP) {
    h->end = ROCATTACH_HOLD_STOPPED;
    return 1;
  }
  /* A SIGKILL, or another thread's exit_group, must not wait for us. */
  if ((BPF_CORE_READ(task, pending.signal.sig[0]) & SIGKILL_BIT) ||
      (BPF_CORE_READ(task, signal, shared_pending.signal.sig[0]) & SIGKILL_BIT) ||
      (BPF_CORE_READ(task, signal, flags) & SIGNAL_GROUP_EXIT)) {
    h->end = ROCATTACH_HOLD_KILLED;
    return 1;
  }
  struct claim* claim = bpf_map_lookup_elem(&claims, &h->key);
  if (!claim || claim->state == CLAIM_RELEASED ||
      (h->follower && claim->state != CLAIM_OPEN)) {
    h->end = ROCATTACH_HOLD_RELEASED;
    return 1;
  }
  if (bpf_ktime_get_boot_ns() >= h->deadline_ns) {
    h->end = ROCATTACH_HOLD_DEADLINE;
    return 1;
  }
  bpf_copy_from_user_task(&byte, sizeof(byte), (void*)h->stack, task, 0);
  return 0;
}

/* Answers of claim_window. */
enum { NOT_MINE = 0, FIRST_WINDOW = 1, WINDOW_AGAIN = 2, FOLLOW = 3 };

/* Claims the window for the calling thread. Exactly one thread of a process wins; those
 * that come while its window is open are told to follow it. */
static __always_inline int claim_window(struct task_struct* task, struct claim_key* key,
                                        __u64* opened_ns) {
  struct claim claim = {.state = CLAIM_OPEN, .tid = BPF_CORE_READ(task, pid)};
  struct claim* old;
  __u32 state;
  long rc;
  COUNT(hits);
  make_key(task, key);
  claim.opened_ns = *opened_ns;
  rc = bpf_map_update_elem(&claims, key, &claim, BPF_NOEXIST);
  if (!rc) {
    COUNT(windows);
    return FIRST_WINDOW;
  }
  if (rc != -17 /* EEXIST */) {
    COUNT(claims_full);
    return NOT_MINE;
  }
  old = bpf_map_lookup_elem(&claims, key);
  if (!old) return NOT_MINE;
  state = __sync_val_compare_and_swap(&old->state, CLAIM_FORGOTTEN, CLAIM_OPEN);
  if (state == CLAIM_OPEN) {
    *opened_ns = old->opened_ns;
    return FOLLOW;
  }
  if (state != CLAIM_FORGOTTEN) return NOT_MINE;
  old->tid = claim.tid;
  old->opened_ns = *opened_ns;
  COUNT(windows);
  return WINDOW_AGAIN;
}

/* Moves an open claim on, if it still is open. */
static __always_inline void settle_claim(struct claim_key* key, __u32 state) {
  struct claim* claim = bpf_map_lookup_elem(&claims, key);
  if (claim) __sync_val_compare_and_swap(&claim->state, CLAIM_OPEN, state);
}

/* Lets the process's next hsa_init open a window. False if it has no claim. */
static __always_inline int forget_window(struct task_struct* task) {
  struct claim_key key = {};
  struct claim* claim;
  make_key(task, &key);
  claim = bpf_map_lookup_elem(&claims, &key);
  if (!claim) return 0;
  claim->state = CLAIM_FORGOTTEN;
  return 1;
}

/* Rung 0 of the hold: sleepable, the thread stays inside the probe. */
SEC("uprobe.s")
int hsa_init_yield(struct pt_regs* ctx) {
  struct task_struct* task = bpf_get_current_task_btf();
  __u32 zero = 0;
  struct rocattach_settings* set = bpf_map_lookup_elem(&settings, &zero);
  struct rocattach_event* e;
  struct hold h = {};
  __u32 mode;
  int mine;

  if (!set) return 0;
  h.opened_ns = bpf_ktime_get_boot_ns();
  h.stack = ctx->sp;
  mine = claim_window(task, &h.key, &h.opened_ns);
  if (mine == NOT_MINE) return 0;
  h.deadline_ns = h.opened_ns + set->deadline_ns;
  if (mine == FOLLOW) {
    h.follower = 1;
    /* The service stops it with ptrace as well, and lets it go when the window is
     * settled: while it spins here it takes the address space's lock again and again,
     * and may sleep with it, and the thread that loads the collector needs that lock.
     */
    e = new_event(task, ROCATTACH_EVENT_FOLLOW);
    if (e) bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
    bpf_loop(1 << 23, hold_round, &h, 0);
    return 0;
  }
  mode = window_mode(task, set, ROCATTACH_WINDOW_HELD);
  if (mode != ROCATTACH_WINDOW_HELD) settle_claim(&h.key, CLAIM_RELEASED);
  e = new_event(task, ROCATTACH_EVENT_WINDOW);
  if (!e) { /* nobody would come: do not hold */
    settle_claim(&h.key, CLAIM_RELEASED);
    return 0;
  }
  e->time_ns = h.opened_ns;
  e->mode = mode;
  e->cookie = bpf_get_attach_cookie(ctx);
  e->ip = ctx->ip;
  e->args[0] = mine == WINDOW_AGAIN;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  if (mode != ROCATTACH_WINDOW_HELD) return 0;

  COUNT(held);
  bpf_loop(1 << 23, hold_round, &h, 0);
  if (!h.end) h.end = ROCATTACH_HOLD_DEADLINE;
  /* Stopped: the claim stays open until the collector reports in. */
  if (h.end != ROCATTACH_HOLD_STOPPED) settle_claim(&h.key, CLAIM_RELEASED);
  if (h.end == ROCATTACH_HOLD_DEADLINE) COUNT(deadlines);
  e = new_event(task, ROCATTACH_EVENT_HOLD_END);
  if (!e) return 0;
  e->mode = h.end;
  e->args[0] = e->time_ns - h.opened_ns;
  e->args[1] = h.rounds;
  e->args[2] = h.opened_ns;
  bpf_ringbuf_submit(e, 0);
  return 0;
}

/* Rung 1: for kernels without sleepable uprobes. The service has seized the thread when
 * it mapped the library; a thread-directed SIGSTOP then becomes a ptrace stop that only
 * the tracer sees. A thread that is not ours is never signalled. */
SEC("uprobe")
int hsa_init_signal(struct pt_regs* ctx) {
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  __u32 zero = 0;
  struct rocattach_settings* set = bpf_map_lookup_elem(&settings, &zero);
  struct rocattach_event* e;
  struct claim_key key = {};
  __u64 now = bpf_ktime_get_boot_ns();
  __u32 mode;
  int mine;

  if (!set) return 0;
  mine = claim_window(task, &key, &now);
  if (mine != FIRST_WINDOW && mine != WINDOW_AGAIN) return 0;
  mode = window_mode(task, set, ROCATTACH_WINDOW_SIGNALLED);
  if (mode == ROCATTACH_WINDOW_SIGNALLED &&
      (!(BPF_CORE_READ(task, ptrace) & PT_PTRACED) ||
       (__u32)BPF_CORE_READ(task, parent, tgid) != set->service_tgid))
    mode = ROCATTACH_WINDOW_REPORTED;
  e = new_event(task, ROCATTACH_EVENT_WINDOW);
  if (!e) return 0;
  e->time_ns = now;
  e->mode = mode;
  e->cookie = bpf_get_attach_cookie(ctx);
  e->ip = ctx->ip;
  /* The signal first: nothing of it is visible before the event is, so the service
   * cannot answer a stop that has not been asked for. */
  e->args[0] = mine == WINDOW_AGAIN;
  if (mode == ROCATTACH_WINDOW_SIGNALLED) {
    if (bpf_send_signal_thread(SIGSTOP)) {
      e->mode = ROCATTACH_WINDOW_REPORTED;
    } else {
      COUNT(held);
    }
  }
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

/* rocattach_collector_ready(memory, bytes, window_id) of the collector. */
SEC("uprobe")
int collector_ready(struct pt_regs* ctx) {
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  struct rocattach_event* e = new_event(task, ROCATTACH_EVENT_READY);
  struct claim_key key = {};
  make_key(task, &key);
  settle_claim(&key, CLAIM_READY);
  if (!e) return 0;
  e->args[0] = ctx->di;
  e->args[1] = ctx->si;
  e->args[2] = ctx->dx;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

/* The runtime has been shut down: the process's next hsa_init is a first one again. */
SEC("uprobe")
int collector_unloaded(struct pt_regs* ctx) {
  struct task_struct* task = (struct task_struct*)bpf_get_current_task();
  forget_window(task);
  return 0;
}

SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args* ctx) {
  struct task_struct* task = (struct task_struct*)ctx->args[0];
  struct claim_key key = {};
  struct rocattach_event* e;
  unsigned int flags;

  /* Every thread comes by; the last one brings signal->live to 0 before it does. */
  if (BPF_CORE_READ(task, signal, live.counter) != 0) return 0;
  make_key(task, &key);
  if (bpf_map_delete_elem(&claims, &key)) return 0;
  e = new_event(task, ROCATTACH_EVENT_EXIT);
  if (!e) return 0;
  flags = BPF_CORE_READ(task, signal, flags);
  e->args[0] = flags & SIGNAL_GROUP_EXIT ? BPF_CORE_READ(task, signal, group_exit_code)
                                         : BPF_CORE_READ(task, group_leader, exit_code);
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args* ctx) {
  struct task_struct* task = (struct task_struct*)ctx->args[0];
  struct rocattach_event* e;

  if (!forget_window(task)) return 0;
  e = new_event(task, ROCATTACH_EVENT_EXEC);
  if (!e) return 0;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}
