/* The kernel side of the attach window: one probe on hsa_init, two on the collector,
 * and the ends of the processes whose windows were seen. */
#include "bpf/call.h"
#include "bpf/claims.h"
#include "bpf/events.h"
#include "bpf/follow.h"
#include "bpf/hold.h"
#include "bpf/layout.h"
#include "bpf/policy.h"
#include "bpf/traits.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Cleared before loading if the kernel has no cookies: the call is then dead code. */
const volatile __u32 use_cookies = 1;

FRAME __u64 cookie(struct pt_regs* ctx) {
  return use_cookies ? bpf_get_attach_cookie(ctx) : 0;
}

/* Notifies the service of a window, and wakes it. False if there was no room for the
 * event. `layout` is the index of the window's layout plus one, or 0. */
FRAME int announce(struct pt_regs* ctx, __u64 opened_ns, __u32 mode, int again,
                   __u32 layout) {
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_WINDOW);
  if (!e) return 0;
  e->time_ns = opened_ns;
  e->mode = mode;
  e->cookie = cookie(ctx);
  e->ip = ctx->ip;
  e->sp = ctx->sp;
  e->layout = layout;
  e->charged_uid = claim_charged_uid();
  e->window.flags = window_flags(again);
  e->window.cpu = bpf_get_smp_processor_id();
  e->window.filesystem_view_id = filesystem_view_id();
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 1;
}

/* Notifies the service that the calling thread waits for a window, and of its owner. */
FRAME int notify_follow(void) {
  struct rocattach_process_key* owner = memory_owner();
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_FOLLOW);
  if (!e) return 0;
  e->follow.pid = owner ? owner->pid : e->pid;
  e->follow.start_ns = owner ? owner->start_ns : e->start_ns;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

/* Refuses a window because of a budget. */
FRAME int refuse_window(struct pt_regs* ctx, __u64 opened_ns, __u32 budget) {
  __u32 user = claim_charged_uid();
  struct rocattach_event* e;
  __u32 mode;
  if (!note_refusal(user, opened_ns)) return 0;
  mode = window_mode(ROCATTACH_WINDOW_HELD);
  if (mode != ROCATTACH_WINDOW_HELD && mode != ROCATTACH_WINDOW_REPORTED) return 0;
  e = new_event(ROCATTACH_EVENT_WINDOW);
  if (!e) return 0;
  e->time_ns = opened_ns;
  e->mode = ROCATTACH_WINDOW_OVER_BUDGET;
  e->cookie = cookie(ctx);
  e->charged_uid = user;
  e->over_budget.budget = budget;
  e->over_budget.refused = refusals_of(user);
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

/* Reports the window of a process that yields it to another one; true if the other's
 * window is open, so that this process has to wait for it. */
FRAME int report_shared(struct pt_regs* ctx, __u64 opened_ns) {
  struct rocattach_process_key* owner = memory_owner();
  struct rocattach_claim* claim = awaited_claim();
  __u32 mode = window_mode(ROCATTACH_WINDOW_SHARED);
  struct rocattach_event* e = new_event(ROCATTACH_EVENT_WINDOW);
  if (!e) return 0;
  e->time_ns = opened_ns;
  e->mode = mode;
  e->cookie = cookie(ctx);
  e->ip = ctx->ip;
  e->shared.owner_pid = vfork_parent();
  e->shared.is_vfork_child = e->shared.owner_pid != 0;
  if (owner) e->shared.owner_pid = owner->pid;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return mode == ROCATTACH_WINDOW_SHARED && claim &&
         claim->state == ROCATTACH_CLAIM_OPEN;
}

/* Holds the thread that opened a window until the service has stopped or released it.
 * The service is notified first, so that it wakes up while the layout is written. */
FRAME int hold_window(struct pt_regs* ctx, __u64 opened_ns, __u64 limit_ns, int again) {
  __u32 layout = take_layout(opened_ns);
  __u64 held;
  if (!announce(ctx, opened_ns, ROCATTACH_WINDOW_HELD, again, layout + 1)) {
    leave_layout(layout, opened_ns);
    settle_claim(ROCATTACH_CLAIM_RELEASED); /* it would not be served: do not hold */
    return 0;
  }
  COUNT(held);
  /* For a late attach the service has read the mappings before, and while a thread
   * fills the layout it does not notice a request to stop. */
  if (!(cookie(ctx) & ROCATTACH_COOKIE_LATE)) fill_layout(ctx, layout, opened_ns);
  held = hold_thread(ctx->sp, limit_ns, 0);
  leave_layout(layout, opened_ns);
  /* Stopped: the claim stays open until the collector reports in. */
  if ((__u32)held != ROCATTACH_HOLD_STOPPED) settle_claim(ROCATTACH_CLAIM_RELEASED);
  if ((__u32)held == ROCATTACH_HOLD_DEADLINE) COUNT(deadlines);
  notify_hold_end(opened_ns, (__u32)held, held >> 32);
  return 0;
}

/* The yielding hold mode: sleepable, the thread stays inside the probe. */
SEC("uprobe.s")
int hsa_init_yield(struct pt_regs* ctx) {
  __u64 now_ns = bpf_ktime_get_boot_ns();
  __u32 mode;
  int mine;

  if (service.gone) return 0;
  /* A late probe is on processes that are to be attached to. */
  if (cookie(ctx) & ROCATTACH_COOKIE_LATE) {
    if (enter_call(now_ns, ctx->ip, ctx->sp)) return 0;
  } else if (!has_windows()) {
    return 0;
  }
  mine = claim_window(now_ns);
  if (mine == NOT_MINE) return 0;
  if (mine >= OVER_BUDGET) return refuse_window(ctx, now_ns, mine - OVER_BUDGET);
  if (mine == FOLLOW || (mine == SHARED && report_shared(ctx, now_ns))) {
    /* The service stops a follower with ptrace as well, and releases it when the window
     * is settled: while spinning here it repeatedly takes the address space's lock, may
     * sleep with it, and the thread that loads the collector needs that lock. */
    notify_follow();
    hold_thread(ctx->sp, settings.limit_ns, 1);
    return 0;
  }
  if (mine == SHARED) return 0;
  mode = window_mode(ROCATTACH_WINDOW_HELD);
  if (mode == ROCATTACH_WINDOW_HELD)
    return hold_window(ctx, now_ns, settings.limit_ns, mine == WINDOW_AGAIN);
  settle_claim(ROCATTACH_CLAIM_RELEASED);
  announce(ctx, now_ns, mode, mine == WINDOW_AGAIN, 0);
  return 0;
}

/* Opens a window in the signal hold mode. The signal comes first, before the event is
 * visible, so that the service cannot answer a stop that was not requested. */
FRAME int signal_window(struct pt_regs* ctx, __u64 opened_ns, int again) {
  struct rocattach_event* e;
  __u32 mode;
  mode = window_mode(ROCATTACH_WINDOW_SIGNALLED);
  if (mode == ROCATTACH_WINDOW_SIGNALLED && !is_stoppable())
    mode = ROCATTACH_WINDOW_REPORTED;
  e = new_event(ROCATTACH_EVENT_WINDOW);
  if (!e) {
    settle_claim(ROCATTACH_CLAIM_RELEASED);
    return 0;
  }
  e->time_ns = opened_ns;
  e->cookie = cookie(ctx);
  e->ip = ctx->ip;
  e->charged_uid = claim_charged_uid();
  e->window.flags = again ? ROCATTACH_WINDOW_AGAIN : 0;
  if (mode == ROCATTACH_WINDOW_SIGNALLED &&
      bpf_send_signal_thread(ROCATTACH_STOP_SIGNAL))
    mode = ROCATTACH_WINDOW_REPORTED;
  e->mode = mode;
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  if (mode == ROCATTACH_WINDOW_SIGNALLED) {
    COUNT(held);
  } else {
    settle_claim(ROCATTACH_CLAIM_RELEASED);
  }
  return 0;
}

/* The signal hold mode, for kernels without sleepable uprobes. The service has seized
 * the thread when it mapped the library; a signal to this thread then becomes a ptrace
 * stop that only the tracer sees. A thread that the service does not trace is never
 * signalled. Followers are stopped in the same way, until the window is settled. */
SEC("uprobe")
int hsa_init_signal(struct pt_regs* ctx) {
  __u64 now_ns = bpf_ktime_get_boot_ns();
  int mine;

  if (!has_windows()) return 0;
  mine = claim_window(now_ns);
  if (mine >= OVER_BUDGET) return refuse_window(ctx, now_ns, mine - OVER_BUDGET);
  if (mine == SHARED) report_shared(ctx, now_ns);
  if (mine == FOLLOW && is_stoppable() && !is_unserved())
    bpf_send_signal_thread(ROCATTACH_STOP_SIGNAL);
  if (mine == FIRST_WINDOW || mine == WINDOW_AGAIN)
    signal_window(ctx, now_ns, mine == WINDOW_AGAIN);
  return 0;
}

/* A late probe in the signal hold mode: a program of its own, because not every kernel
 * can tell by a cookie which probe was hit. */
SEC("uprobe")
int runtime_call_signal(struct pt_regs* ctx) {
  enter_call(bpf_ktime_get_boot_ns(), ctx->ip, ctx->sp);
  return 0;
}

/* rocattach_collector_ready(memory, bytes, window_id) of the collector. */
SEC("uprobe")
int collector_ready(struct pt_regs* ctx) {
  struct rocattach_event* e;
  claim_late(ctx->dx);
  if (!take_report()) return 0;
  settle_claim(ROCATTACH_CLAIM_READY);
  e = new_event(ROCATTACH_EVENT_READY);
  if (!e) return 0;
  e->ready.memory = ctx->di;
  e->ready.bytes_or_errno = ctx->si;
  e->ready.window_id = ctx->dx;
  e->charged_uid = claim_charged_uid();
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

/* The runtime has been shut down: the process's next hsa_init opens a window again. */
SEC("uprobe")
int collector_unloaded(struct pt_regs* ctx) {
  forget_window();
  return 0;
}

/* Ends the holds when the service ends: whatever the cause, its exit passes here before
 * its probes are removed. Current holds would otherwise last until their deadline, with
 * or without probes. */
FRAME int note_service_end(void) {
  struct task_struct* task = current_task();
  if (service.start_ns && (__u32)READ(task, tgid) == service.tgid &&
      READ(task, group_leader, start_boottime) == service.start_ns)
    service.gone = 1;
  return 0;
}

/* The service runs this once, in its own context, to identify itself: in a pid
 * namespace it does not know its global process ID. */
SEC("raw_tp")
int note_service(void* ctx) {
  struct task_struct* task = current_task();
  service.tgid = READ(task, tgid);
  service.start_ns = READ(task, group_leader, start_boottime);
  service.signal = (__u64)BPF_CORE_READ(task, signal);
  service.leader = (__u64)BPF_CORE_READ(task, group_leader);
  return 0;
}

SEC("raw_tp/sched_process_exit")
int process_exit(struct bpf_raw_tracepoint_args* ctx) {
  /* Called by the exiting thread; the last one of its process has already brought
   * signal->live to 0. */
  struct task_struct* task = current_task();
  struct signal_struct* signal = READ(task, signal);
  struct rocattach_event* e;
  int taken_over;

  if (READ(signal, live.counter) != 0) return 0;
  note_service_end();
  leave_memory();
  end_follow();
  /* Collectors of an earlier service have no claim of ours. */
  taken_over = forget_late_window();
  if (remove_claim() && !taken_over) return 0;
  e = new_event(ROCATTACH_EVENT_EXIT);
  if (!e) return 0;
  e->exit.wait_status = READ(signal, flags) & SIGNAL_GROUP_EXIT
                            ? READ(signal, group_exit_code)
                            : READ(task, group_leader, exit_code);
  bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

/* Attached only if processes are followed. */
SEC("raw_tp/sched_process_fork")
int process_fork(struct bpf_raw_tracepoint_args* ctx) {
  return follow_child((struct task_struct*)ctx->args[1]);
}

SEC("raw_tp/sched_process_exec")
int process_exec(struct bpf_raw_tracepoint_args* ctx) {
  int taken_over = forget_late_window();
  leave_memory();
  forget_call();
  follow_program();
  /* The new program counts as another process, with its own claim. */
  if (!remove_claim() || taken_over) notify(ROCATTACH_EVENT_EXEC);
  return 0;
}
