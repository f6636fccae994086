/* The event ring and the counters. */
#ifndef ROCATTACH_BPF_EVENTS_H_
#define ROCATTACH_BPF_EVENTS_H_

#include "bpf/frame.h"

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 256 * 1024);
} events SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct rocattach_bpf_stats);
} stats SEC(".maps");

FRAME struct rocattach_bpf_stats* my_stats(void) {
  __u32 zero = 0;
  return bpf_map_lookup_elem(&stats, &zero);
}

#define COUNT(field)                             \
  do {                                           \
    struct rocattach_bpf_stats* s_ = my_stats(); \
    if (s_) __sync_fetch_and_add(&s_->field, 1); \
  } while (0)

/* The task's ID in its innermost pid namespace. */
static __always_inline __u32 inner_number(struct task_struct* task) {
  /* Read as an integer: the verifier of Linux 6.1 allows no variable offset to a
   * pointer whose type it knows. */
  __u64 pid = (__u64)BPF_CORE_READ(task, thread_pid);
  unsigned int level = BPF_CORE_READ((struct pid*)pid, level) & 31;
  int number = 0;
  /* numbers[] is a flexible array: the offset of element `level` is computed here,
   * because CO-RE relocates the array's start and the element's size. */
  bpf_core_read(&number, sizeof(number),
                (void*)(pid + bpf_core_field_offset(struct pid, numbers) +
                        level * bpf_core_type_size(struct upid) +
                        bpf_core_field_offset(struct upid, nr)));
  return number;
}

FRAME __u32 inner_tid(void) {
  return inner_number(current_task());
}

/* The same for the process: the ID of its first thread. */
FRAME __u32 inner_pid(void) {
  return inner_number(READ(current_task(), group_leader));
}

/* Number of events put into the ring for which a thread waits. The service, which maps
 * this memory, counts those that it has consumed. */
__u64 urgent_events;

/* Reserves an event of the calling thread, which the caller completes and submits; null
 * if there is no room, which is counted. */
static __always_inline struct rocattach_event* new_event(__u32 type) {
  struct task_struct* task = current_task();
  struct rocattach_event* e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
  if (!e) {
    COUNT(lost);
    return 0;
  }
  if (ROCATTACH_IS_URGENT(type)) __sync_fetch_and_add(&urgent_events, 1);
  e->version = ROCATTACH_EVENT_VERSION;
  e->size = sizeof(*e);
  e->type = type;
  e->time_ns = bpf_ktime_get_boot_ns();
  e->pid = READ(task, tgid);
  e->tid = READ(task, pid);
  e->inner_pid = inner_pid();
  e->inner_tid = inner_tid();
  e->start_ns = READ(task, group_leader, start_boottime);
  e->cgroup_id = bpf_get_current_cgroup_id();
  e->uid = READ(task, cred, euid.val);
  e->mode = 0;
  e->cookie = 0;
  e->ip = 0;
  e->sp = 0;
  e->layout = 0;
  e->charged_uid = 0;
  e->words[0] = e->words[1] = e->words[2] = 0;
  bpf_get_current_comm(e->comm, sizeof(e->comm));
  return e;
}

/* Sends an event without further data. */
FRAME int notify(__u32 type) {
  struct rocattach_event* e = new_event(type);
  if (e) bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
  return 0;
}

#endif /* ROCATTACH_BPF_EVENTS_H_ */
