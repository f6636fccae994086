/* Who has opened the window of a process, and what has become of it. */
#ifndef ROCATTACH_BPF_CLAIMS_H_
#define ROCATTACH_BPF_CLAIMS_H_

#include "bpf/events.h"

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

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, struct claim_key);
  __type(value, struct claim);
} claims SEC(".maps");

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

/* Answers of claim_window. */
enum { NOT_MINE = 0, FIRST_WINDOW = 1, WINDOW_AGAIN = 2, FOLLOW = 3 };

/* An int: before Linux 6.4 the upper half of what map helpers return is undefined,
 * since the JIT calls functions that return an int. */
FRAME int insert_claim(__u64 now_ns) {
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
  int rc;
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

FRAME int remove_claim(void) {
  struct claim_key key;
  make_key(bpf_get_current_task_btf(), &key);
  return bpf_map_delete_elem(&claims, &key);
}

#endif /* ROCATTACH_BPF_CLAIMS_H_ */
