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
/* include/uapi/linux/auxvec.h, include/uapi/linux/seccomp.h */
#define AT_NULL 0
#define AT_SECURE 23
#define SECCOMP_MODE_STRICT 1
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

/* No function here may use 64 bytes of stack or more. From Linux 6.13 on, functions
 * that do get a private stack, one per CPU, and uprobe programs have it too:
 *   1. Program A sleeps, or is preempted, inside a helper.
 *   2. On the same CPU, program B of another process runs the same function.
 *   3. A goes on, with B's variables in its frame.
 * Smaller frames stay on the kernel stack. That is why the work is cut into functions
 * that are not inlined. tests/integration/watch/frames_test.cc holds this. */
#define FRAME static __noinline

FRAME struct rocattach_bpf_stats* my_stats(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&stats, &zero);
}

FRAME struct rocattach_settings* get_settings(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&settings, &zero);
}

#define COUNT(field)                             \
  do {                                           \
    struct rocattach_bpf_stats* s_ = my_stats(); \
    if (s_) __sync_fetch_and_add(&s_->field, 1); \
  } while (0)

static __always_inline void make_key(struct task_struct* task, struct claim_key* key) {
  key->tgid = task->tgid;
  key->pad = 0;
  key->start_ns = task->group_leader->start_boottime;
}

/* The calling process's claim, or null. */
FRAME struct claim* my_claim(void) {
  struct claim_key key;
  make_key(bpf_get_current_task_btf(), &key);
  return bpf_map_lookup_elem(&claims, &key);
}

/* The thread's number in its innermost pid namespace. */
FRAME __u32 inner_tid(void) {
  struct pid* pid = bpf_get_current_task_btf()->thread_pid;
  unsigned int level = pid->level & 31;
  int number = 0;
  /* numbers[] is a flexible array: the offset of element `level` is computed here,
   * because CO-RE relocates the array's start and the element's size. */
  bpf_core_read(&number, sizeof(number),
                (void*)pid + bpf_core_field_offset(struct pid, numbers) +
                    level * bpf_core_type_size(struct upid) +
                    bpf_core_field_offset(struct upid, nr));
  return number;
}

/* The same for the process: the number of its first thread. */
FRAME __u32 inner_pid(void) {
  struct pid* pid = bpf_get_current_task_btf()->group_leader->thread_pid;
  unsigned int level = pid->level & 31;
  int number = 0;
  bpf_core_read(&number, sizeof(number),
                (void*)pid + bpf_core_field_offset(struct pid, numbers) +
                    level * bpf_core_type_size(struct upid) +
                    bpf_core_field_offset(struct upid, nr));
  return number;
}

/* An event of the calling thread, to be filled in further and submitted; null, and
 * counted, if there is no room. */
static __always_inline struct rocattach_event* new_event(__u32 type) {
  struct task_struct* task = bpf_get_current_task_btf();
  struct rocattach_event* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) {
    COUNT(lost);
    return 0;
  }
  e->version = ROCATTACH_EVENT_VERSION;
  e->size = sizeof(*e);
  e->type = type;
  e->time_ns = bpf_ktime_get_boot_ns();
  e->pid = task->tgid;
  e->tid = task->pid;
  e->inner_pid = inner_pid();
  e->inner_tid = inner_tid();
  e->start_ns = task->group_leader->start_boottime;
  e->cgroup_id = bpf_get_current_cgroup_id();
  e->uid = task->cred->euid.val;
  e->mode = 0;
  e->cookie = 0;
  e->ip = 0;
  e->sp = 0;
  e->args[0] = e->args[1] = e->args[2] = 0;
  bpf_get_current_comm(e->comm, sizeof(e->comm));
  return e;
}

FRAME int is_name_denied(void) {
  struct comm_key comm;
  bpf_get_current_comm(comm.comm, sizeof(comm.comm));
  return bpf_map_lookup_elem(&deny_comm, &comm) != 0;
}

FRAME int is_denied(void) {
  __u32 uid = bpf_get_current_task_btf()->cred->euid.val;
  __u64 cgroup = bpf_get_current_cgroup_id();
  return bpf_map_lookup_elem(&deny_uid, &uid) ||
         bpf_map_lookup_elem(&deny_cgroup, &cgroup) || is_name_denied();
}

/* True if the process `tgid` is among the calling process's ancestors. */
FRAME int is_below(__u32 tgid) {
  struct task_struct* task = bpf_get_current_task_btf();
  for (int i = 0; i < 64; ++i) {
    __u32 ancestor = task->tgid;
    if (ancestor == tgid) return 1;
    if (ancestor <= 1) return 0;
    task = task->real_parent;
  }
  return 0;
}

/* How this window is met, before anything is done about it. */
static __always_inline __u32 window_mode(struct rocattach_settings* set,
                                         __u32 hold_mode) {
  if (set->paused) return ROCATTACH_WINDOW_PAUSED;
  if (set->only_below && !is_below(set->only_below)) return ROCATTACH_WINDOW_UNRELATED;
  if (is_denied()) return ROCATTACH_WINDOW_DENIED;
  if (set->only_uid_set && bpf_get_current_task_btf()->cred->euid.val != set->only_uid)
    return ROCATTACH_WINDOW_DENIED;
  if (!set->hold) return ROCATTACH_WINDOW_REPORTED;
  return hold_mode;
}

struct hold {
  __u64 deadline_ns;
  __u64 stack;
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

/* One round of the hold. The read of one byte of the thread's own stack is there for
 * its resched point: the thread gives its CPU away even on a kernel without preemption,
 * so the service can run on it. A read that fails may not have come to that point. */
static long hold_round(__u32 index, struct hold* h) {
  struct task_struct* task = bpf_get_current_task_btf();
  struct claim* claim;
  char byte;
  h->rounds = index;
  if (task->jobctl & JOBCTL_TRAP_STOP) {
    h->end = ROCATTACH_HOLD_STOPPED;
    return 1;
  }
  if (is_dying(task)) {
    h->end = ROCATTACH_HOLD_KILLED;
    return 1;
  }
  claim = my_claim();
  if (!claim || claim->state == CLAIM_RELEASED ||
      (h->follower && claim->state != CLAIM_OPEN)) {
    h->end = ROCATTACH_HOLD_RELEASED;
    return 1;
  }
  if (bpf_ktime_get_boot_ns() >= h->deadline_ns) {
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

/* Answers of claim_window. */
enum { NOT_MINE = 0, FIRST_WINDOW = 1, WINDOW_AGAIN = 2, FOLLOW = 3 };

FRAME long insert_claim(__u64 now_ns) {
  struct task_struct* task = bpf_get_current_task_btf();
  struct claim claim;
  struct claim_key key;
  make_key(task, &key);
  claim.state = CLAIM_OPEN;
  claim.tid = task->pid;
  claim.opened_ns = now_ns;
  return bpf_map_update_elem(&claims, &key, &claim, BPF_NOEXIST);
}

/* Claims the window for the calling thread. Exactly one thread of a process wins; those
 * that come while its window is open are told to follow it. */
FRAME int claim_window(__u64 now_ns) {
  struct claim* old;
  __u32 state;
  long rc;
  COUNT(hits);
  rc = insert_claim(now_ns);
  if (!rc) {
    COUNT(windows);
    return FIRST_WINDOW;
  }
  if (rc != -17 /* EEXIST */) {
    COUNT(claims_full);
    return NOT_MINE;
  }
  old = my_claim();
  if (!old) return NOT_MINE;
  state = __sync_val_compare_and_swap(&old->state, CLAIM_FORGOTTEN, CLAIM_OPEN);
  if (state == CLAIM_OPEN) return FOLLOW;
  if (state != CLAIM_FORGOTTEN) return NOT_MINE;
  old->tid = bpf_get_current_task_btf()->pid;
  old->opened_ns = now_ns;
  COUNT(windows);
  return WINDOW_AGAIN;
}

/* Moves an open claim on, if it still is open. */
FRAME int settle_claim(__u32 state) {
  struct claim* claim = my_claim();
  if (claim) __sync_val_compare_and_swap(&claim->state, CLAIM_OPEN, state);
  return 0;
}

/* Lets the process's next hsa_init open a window. False if it has no claim. */
FRAME int forget_window(void) {
  struct claim* claim = my_claim();
  if (!claim) return 0;
  claim->state = CLAIM_FORGOTTEN;
  return 1;
}

/* ROCATTACH_WINDOW_SECURE if the process runs with more rights than its user's,
 * ROCATTACH_WINDOW_KNOWN if that could be read. */
FRAME __u64 secure_flags(void) {
  struct mm_struct* mm = bpf_get_current_task_btf()->mm;
  struct {
    unsigned long type, value;
  } entry;
  for (int i = 0; i < 32; ++i) {
    if (bpf_core_read(&entry, sizeof(entry),
                      (void*)mm + bpf_core_field_offset(struct mm_struct, saved_auxv) +
                          i * sizeof(entry)) ||
        entry.type == AT_NULL)
      return 0;
    if (entry.type == AT_SECURE)
      return ROCATTACH_WINDOW_KNOWN | (entry.value ? ROCATTACH_WINDOW_SECURE : 0);
  }
  return 0;
}

/* What decides how a process sees the file system, as one number: its mount namespace
 * and its root. Good for a second's cache, since numbers are used again. */
FRAME __u64 place(void) {
  struct task_struct* task = bpf_get_current_task_btf();
  __u64 mount = (__u64)BPF_CORE_READ(task, fs, root.mnt);
  __u64 dentry = (__u64)BPF_CORE_READ(task, fs, root.dentry);
  __u64 mounts = task->nsproxy->mnt_ns->ns.inum;
  return (mounts * 0x9e3779b97f4a7c15ull) ^ mount ^ (dentry << 21 | dentry >> 43);
}

FRAME __u64 window_flags(__u32 again) {
  __u64 flags = secure_flags();
  if (again) flags |= ROCATTACH_WINDOW_AGAIN;
  /* A kernel without CONFIG_SECCOMP has no mode either. */
  if (bpf_core_field_exists(bpf_get_current_task_btf()->seccomp.mode) &&
      bpf_get_current_task_btf()->seccomp.mode == SECCOMP_MODE_STRICT)
    flags |= ROCATTACH_WINDOW_STRICT;
  return flags;
}

/* Tells the service of a window, and wakes it. False if the event found no room. */
FRAME int announce(struct pt_regs* ctx, __u64 opened_ns, __u32 mode, __u32 again) {
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_WINDOW);
  if (!e) return 0;
  e->time_ns = opened_ns;
  e->mode = mode;
  e->cookie = bpf_get_attach_cookie(ctx);
  e->ip = ctx->ip;
  e->sp = ctx->sp;
  e->args[0] = window_flags(again);
  e->args[1] = bpf_get_smp_processor_id();
  e->args[2] = place();
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 1;
}

/* An event without more to say. */
FRAME int tell(__u32 type) {
  struct rocattach_event* e = new_event(type);
  if (e) bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

FRAME int tell_hold_end(__u64 opened_ns, __u32 end, __u32 rounds) {
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_HOLD_END);
  if (!e) return 0;
  e->mode = end;
  e->args[0] = e->time_ns - opened_ns;
  e->args[1] = rounds;
  e->args[2] = opened_ns;
  bpf_ringbuf_submit(e, 0);
  return 0;
}

/* Holds the calling thread; why that ended. */
FRAME __u64 hold_thread(__u64 stack, __u64 deadline_ns, __u32 follower) {
  struct hold h = {};
  h.deadline_ns = deadline_ns;
  h.stack = stack;
  h.follower = (__u16)follower;
  bpf_loop(1 << 23, hold_round, &h, 0);
  /* bpf_loop has a limit of its own: some seconds. */
  if (!h.end) h.end = ROCATTACH_HOLD_DEADLINE;
  return (__u64)h.rounds << 32 | h.end;
}

/* Rung 0 of the hold: sleepable, the thread stays inside the probe. */
SEC("uprobe.s")
int hsa_init_yield(struct pt_regs* ctx) {
  struct rocattach_settings* set = get_settings();
  __u64 now_ns = bpf_ktime_get_boot_ns();
  __u64 held;
  __u32 mode, end;
  int mine;

  if (!set) return 0;
  mine = claim_window(now_ns);
  if (mine == NOT_MINE) return 0;
  if (mine == FOLLOW) {
    /* The service stops it with ptrace as well, and lets it go when the window is
     * settled: while it spins here it takes the address space's lock again and again,
     * and may sleep with it, and the thread that loads the collector needs that lock.
     */
    tell(ROCATTACH_EVENT_FOLLOW);
    hold_thread(ctx->sp, now_ns + set->deadline_ns, 1);
    return 0;
  }
  mode = window_mode(set, ROCATTACH_WINDOW_HELD);
  if (mode != ROCATTACH_WINDOW_HELD) settle_claim(CLAIM_RELEASED);
  if (!announce(ctx, now_ns, mode, mine == WINDOW_AGAIN)) {
    settle_claim(CLAIM_RELEASED); /* nobody would come: do not hold */
    return 0;
  }
  if (mode != ROCATTACH_WINDOW_HELD) return 0;

  COUNT(held);
  held = hold_thread(ctx->sp, now_ns + set->deadline_ns, 0);
  end = (__u32)held;
  /* Stopped: the claim stays open until the collector reports in. */
  if (end != ROCATTACH_HOLD_STOPPED) settle_claim(CLAIM_RELEASED);
  if (end == ROCATTACH_HOLD_DEADLINE) COUNT(deadlines);
  tell_hold_end(now_ns, end, held >> 32);
  return 0;
}

/* Rung 1: for kernels without sleepable uprobes. The service has seized the thread when
 * it mapped the library; a thread-directed SIGSTOP then becomes a ptrace stop that only
 * the tracer sees. A thread that is not ours is never signalled. */
SEC("uprobe")
int hsa_init_signal(struct pt_regs* ctx) {
  struct task_struct* task = bpf_get_current_task_btf();
  struct rocattach_settings* set = get_settings();
  __u64 now_ns = bpf_ktime_get_boot_ns();
  struct rocattach_event* e;
  __u32 mode;
  int mine;

  if (!set) return 0;
  mine = claim_window(now_ns);
  if (mine != FIRST_WINDOW && mine != WINDOW_AGAIN) return 0;
  mode = window_mode(set, ROCATTACH_WINDOW_SIGNALLED);
  if (mode == ROCATTACH_WINDOW_SIGNALLED &&
      (!(task->ptrace & PT_PTRACED) || (__u32)task->parent->tgid != set->service_tgid))
    mode = ROCATTACH_WINDOW_REPORTED;
  e = new_event(ROCATTACH_EVENT_WINDOW);
  if (!e) return 0;
  e->time_ns = now_ns;
  e->mode = mode;
  e->cookie = bpf_get_attach_cookie(ctx);
  e->ip = ctx->ip;
  /* The signal first: nothing of it is visible before the event is, so the service
   * cannot answer a stop that has not been asked for. */
  e->args[0] = mine == WINDOW_AGAIN ? ROCATTACH_WINDOW_AGAIN : 0;
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
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_READY);
  settle_claim(CLAIM_READY);
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
  forget_window();
  return 0;
}

FRAME long remove_claim(void) {
  struct claim_key key;
  make_key(bpf_get_current_task_btf(), &key);
  return bpf_map_delete_elem(&claims, &key);
}

SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args* ctx) {
  /* It is the exiting thread that comes by; the last one of its process has brought
   * signal->live to 0 before. */
  struct task_struct* task = bpf_get_current_task_btf();
  struct signal_struct* signal = task->signal;
  struct rocattach_event* e;

  if (signal->live.counter != 0) return 0;
  if (remove_claim()) return 0;
  e = new_event(ROCATTACH_EVENT_EXIT);
  if (!e) return 0;
  e->args[0] = signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code
                                                 : task->group_leader->exit_code;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args* ctx) {
  if (forget_window()) tell(ROCATTACH_EVENT_EXEC);
  return 0;
}
