/* The processes that have windows, if not all processes have: those that the service
 * names, and their descendants. */
#ifndef ROCATTACH_BPF_FOLLOW_H_
#define ROCATTACH_BPF_FOLLOW_H_

#include "bpf/policy.h"

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, struct rocattach_followed_key);
  __type(value, __u8);
} followed SEC(".maps");

/* `leader` is the first thread of its process. */
static __always_inline void make_followed_key(struct task_struct* leader,
                                              struct rocattach_followed_key* key) {
  key->pid = BPF_CORE_READ(leader, tgid);
  key->pad = 0;
  key->start_ticks = BPF_CORE_READ(leader, start_boottime) / ROCATTACH_CLOCK_TICK_NS;
}

/* The calling process's entry, or null. */
FRAME __u8* my_follow(void) {
  struct rocattach_followed_key key;
  make_followed_key(READ(current_task(), group_leader), &key);
  return bpf_map_lookup_elem(&followed, &key);
}

/* True if the calling process is one of those that have windows. */
FRAME int has_windows(void) {
  __u8* follow;
  if (settings.only_cgroup && !is_in_cgroup(settings.only_cgroup)) return 0;
  if (!settings.only_followed) return 1;
  follow = my_follow();
  return follow && (*follow & ROCATTACH_FOLLOW_WINDOW);
}

/* The calling process has made a child, which does not run yet. The child is followed
 * from its fork on: when it needs its window, its parent may have ended. */
FRAME int follow_child(struct task_struct* child) {
  struct rocattach_followed_key key;
  __u8 both = ROCATTACH_FOLLOW_WINDOW | ROCATTACH_FOLLOW_CHILDREN;
  __u8* follow = my_follow();
  if (!follow || !(*follow & ROCATTACH_FOLLOW_CHILDREN)) return 0;
  make_followed_key(child, &key);
  /* The child is a thread. */
  if (key.pid == (__u32)READ(current_task(), tgid)) return 0;
  bpf_map_update_elem(&followed, &key, &both, BPF_ANY);
  return 0;
}

/* The calling process runs another program, whose runtime is not attached to yet. */
FRAME int follow_program(void) {
  __u8* follow = my_follow();
  if (follow && (*follow & ROCATTACH_FOLLOW_CHILDREN))
    *follow |= ROCATTACH_FOLLOW_WINDOW;
  return 0;
}

/* The calling process has ended. */
FRAME int end_follow(void) {
  struct rocattach_followed_key key;
  if (!settings.only_followed) return 0;
  make_followed_key(READ(current_task(), group_leader), &key);
  bpf_map_delete_elem(&followed, &key);
  return 0;
}

#endif /* ROCATTACH_BPF_FOLLOW_H_ */
