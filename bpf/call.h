/* Late attach at a call of the runtime, without a hold: the first call is only noted;
 * the service seizes its thread, and then the thread's next call stops it by a signal
 * that only the tracer sees. So the thread is stopped only while a tracer wakes up that
 * has everything ready. */
#ifndef ROCATTACH_BPF_CALL_H_
#define ROCATTACH_BPF_CALL_H_

#include "bpf/call_events.h"
#include "bpf/claims.h"
#include "bpf/policy.h"
#include "bpf/traits.h"

/* include/linux/ptrace.h */
#define PT_PTRACED 1u
/* include/uapi/asm-generic/signal-defs.h */
#define SIG_IGN 1ul

/* 0: the kernel cannot send that signal from here, and every call opens a window. */
const volatile __u32 stop_at_calls = 0;

/* The processes that are entered in this way at present; the service maps this memory.
 */
struct rocattach_call calls[ROCATTACH_CALLS];

/* Indexes in `calls` by process ID. Written by the service. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, ROCATTACH_CALLS);
  __type(key, __u32);
  __type(value, __u32);
} call_of SEC(".maps");

FRAME struct rocattach_call* my_call(void) {
  __u32 tgid = READ(current_task(), tgid);
  __u32* index = bpf_map_lookup_elem(&call_of, &tgid);
  if (!index) return 0;
  return &calls[*index % ROCATTACH_CALLS];
}

/* Changes the state; true unless another thread was first. In the second object, two
 * threads of the process may both fail until one of them calls again, and a change by
 * the service at that time may be lost: the program ignores the signal that follows. */
static __always_inline int move_call(struct rocattach_call* call, __u32 from,
                                     __u32 to) {
  int moved;
  if (!begin_turn(TURN_CALL)) return 0;
  moved = SWAP(&call->state, from, to);
  end_turn(TURN_CALL);
  return moved;
}

/* True if a signal to the calling thread becomes a stop that the service sees. */
FRAME int is_stoppable(void) {
  struct task_struct* task = current_task();
  return (READ(task, ptrace) & PT_PTRACED) &&
         (__u32)READ(task, parent, tgid) == settings.service_tgid &&
         !(READ(task, blocked.sig[0]) & (1ul << (ROCATTACH_STOP_SIGNAL - 1)));
}

/* True if the program ignores the signal: if the service dies between the signal and
 * the stop, the kernel drops the signal. */
FRAME int ignores_stop_signal(void) {
  struct task_struct* task = current_task();
  if (READ(task, blocked.sig[0]) & (1ul << (ROCATTACH_STOP_SIGNAL - 1))) return 0;
  return (__u64)BPF_CORE_READ(
             task, sighand, action[ROCATTACH_STOP_SIGNAL - 1].sa.sa_handler) <= SIG_IGN;
}

/* True if another signal would come first, and the thread would stop in its handler. */
FRAME int has_signals(void) {
  struct task_struct* task = current_task();
  return ((READ(task, pending.signal.sig[0]) |
           READ(task, signal, shared_pending.signal.sig[0])) &
          ~READ(task, blocked.sig[0])) != 0;
}

FRAME int in_strict_mode(void) {
  struct task_struct* task = current_task();
  return bpf_core_field_exists(task->seccomp.mode) &&
         READ(task, seccomp.mode) == SECCOMP_MODE_STRICT;
}

/* True if the calling process may be entered in this way. If not, its call opens a
 * window, from which the service learns the reason. */
FRAME int may_enter(void) {
  return !my_claim() && !vfork_parent() && ignores_stop_signal() && !in_strict_mode() &&
         window_mode(ROCATTACH_WINDOW_SIGNALLED) == ROCATTACH_WINDOW_SIGNALLED;
}

FRAME int note_call(struct rocattach_call* call, __u64 ip, __u64 sp) {
  struct task_struct* task = current_task();
  if (!may_enter()) return !move_call(call, ROCATTACH_CALL_AWAITED, ROCATTACH_CALL_OFF);
  if (!move_call(call, ROCATTACH_CALL_AWAITED, ROCATTACH_CALL_NOTING)) return 1;
  call->tid = READ(task, pid);
  call->cpu = bpf_get_smp_processor_id();
  call->ip = ip;
  call->sp = sp;
  call->start_ns = READ(task, group_leader, start_boottime);
  call->mm = (__u64)BPF_CORE_READ(task, mm);
  move_call(call, ROCATTACH_CALL_NOTING, ROCATTACH_CALL_SEEN);
  return 1;
}

/* Stops the calling thread, if it is the seized one, at the same call. */
FRAME int stop_call(struct rocattach_call* call, __u64 now_ns, __u64 ip) {
  struct task_struct* task = current_task();
  if (call->tid != (__u32)READ(task, pid) || call->ip != ip ||
      call->start_ns != READ(task, group_leader, start_boottime) ||
      call->mm != (__u64)BPF_CORE_READ(task, mm))
    return 1;
  if (service.gone || settings.paused || is_unserved() || !is_stoppable() ||
      !ignores_stop_signal() || has_signals() || in_strict_mode())
    return 1;
  if (!move_call(call, ROCATTACH_CALL_ARMED, ROCATTACH_CALL_STOPPING)) return 1;
  call->hit_ns = now_ns;
  if (bpf_send_signal_thread(ROCATTACH_STOP_SIGNAL))
    move_call(call, ROCATTACH_CALL_STOPPING, ROCATTACH_CALL_OFF);
  return 1;
}

/* Handles a call at a late probe. True if that is all: no window is to be opened. */
FRAME int enter_call(__u64 now_ns, __u64 ip, __u64 sp) {
  if (!stop_at_calls) return 0;
  struct rocattach_call* call = my_call();
  if (!call || call->state == ROCATTACH_CALL_OFF) return 0;
  if (call->state == ROCATTACH_CALL_AWAITED) return note_call(call, ip, sp);
  if (call->state == ROCATTACH_CALL_ARMED) return stop_call(call, now_ns, ip);
  return 1;
}

/* To be called when the calling process runs another program. */
FRAME int forget_call(void) {
  struct rocattach_call* call = my_call();
  if (call) call->state = ROCATTACH_CALL_OFF;
  return 0;
}

#endif /* ROCATTACH_BPF_CALL_H_ */
