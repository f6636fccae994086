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
  __u64 mm; /* key of `memories` */
};

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, struct claim_key);
  __type(value, struct claim);
} claims SEC(".maps");

/* Processes may share their memory (CLONE_VM without CLONE_THREAD), and a collector or
 * a loader that is at work in it is there for all of them. So a memory belongs to the
 * process that opens the first window in it, until that one ends or runs another
 * program: so long its mm_struct stays, and the address means this memory and no other.
 */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, __u64); /* address of the mm_struct */
  __type(value, struct claim_key);
} memories SEC(".maps");

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

/* Whose memory the calling process runs in; null if nobody has opened a window there.
 */
FRAME struct claim_key* memory_owner(void) {
  struct claim* claim = my_claim();
  return claim ? bpf_map_lookup_elem(&memories, &claim->mm) : 0;
}

/* The claim that a thread waits for which is not the first one: that of its memory. */
FRAME struct claim* awaited_claim(void) {
  struct claim_key* owner = memory_owner();
  return owner ? bpf_map_lookup_elem(&claims, owner) : my_claim();
}

/* The process that waits for the calling one to exec or end, which runs in its memory
 * meanwhile (vfork); 0: none. */
FRAME __u32 vfork_parent(void) {
  struct task_struct* task = bpf_get_current_task_btf();
  if (!BPF_CORE_READ(task, group_leader, vfork_done)) return 0;
  if (BPF_CORE_READ(task, group_leader, real_parent, mm) != BPF_CORE_READ(task, mm))
    return 0;
  return BPF_CORE_READ(task, group_leader, real_parent, tgid);
}

/* Makes the memory the calling process's own, unless it has an owner. True if it is
 * its own now. */
FRAME int own_memory(__u64 mm) {
  struct claim_key* owner;
  struct claim_key key;
  make_key(bpf_get_current_task_btf(), &key);
  bpf_map_update_elem(&memories, &mm, &key, BPF_NOEXIST);
  owner = bpf_map_lookup_elem(&memories, &mm);
  /* No room: as if nobody shared it. */
  return !owner || (owner->tgid == key.tgid && owner->start_ns == key.start_ns);
}

/* The calling process leaves its memory: it ends or runs another program. */
FRAME int leave_memory(void) {
  struct claim* claim = my_claim();
  struct claim_key* owner = memory_owner();
  struct task_struct* task = bpf_get_current_task_btf();
  if (!claim || !owner || owner->tgid != (__u32)task->tgid ||
      owner->start_ns != task->group_leader->start_boottime)
    return 0;
  bpf_map_delete_elem(&memories, &claim->mm);
  return 1;
}

/* Whether the calling process, whose claim has just been made or renewed, has to leave
 * its window to another one. */
FRAME int shares_memory(void) {
  struct claim* claim = my_claim();
  __u64 mm = (__u64)BPF_CORE_READ(bpf_get_current_task_btf(), mm);
  if (!claim) return 0;
  claim->mm = mm;
  if (!vfork_parent() && own_memory(mm)) return 0;
  __sync_val_compare_and_swap(&claim->state, CLAIM_OPEN, CLAIM_RELEASED);
  return 1;
}

/* Answers of claim_window. */
enum { NOT_MINE = 0, FIRST_WINDOW = 1, WINDOW_AGAIN = 2, FOLLOW = 3, SHARED = 4 };

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
  claim.mm = (__u64)BPF_CORE_READ(task, mm);
  return bpf_map_update_elem(&claims, &key, &claim, BPF_NOEXIST);
}

/* Claims the window for the calling thread. Exactly one thread of a process wins; those
 * that come while its window is open are told to follow it. Of processes that share
 * their memory one wins. */
FRAME int claim_window(__u64 now_ns) {
  struct claim* old;
  __u32 state;
  int rc;
  COUNT(hits);
  rc = insert_claim(now_ns);
  if (!rc) {
    COUNT(windows);
    return shares_memory() ? SHARED : FIRST_WINDOW;
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
  return shares_memory() ? SHARED : WINDOW_AGAIN;
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
