/* Claims: the thread that opened the window of a process, and the window's state. */
#ifndef ROCATTACH_BPF_CLAIMS_H_
#define ROCATTACH_BPF_CLAIMS_H_

#include "bpf/budget.h"
#include "bpf/events.h"

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, struct rocattach_process_key);
  __type(value, struct rocattach_claim);
} claims SEC(".maps");

/* Processes may share their memory (CLONE_VM without CLONE_THREAD), and a collector or
 * a loader that works in it does so for all of them. So a memory belongs to the process
 * that opens the first window in it, until that process ends or runs another program:
 * its mm_struct lives that long, so its address identifies this memory. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 32768);
  __type(key, __u64); /* address of the mm_struct */
  __type(value, struct rocattach_process_key);
} memories SEC(".maps");

/* Processes that were refused before they had a claim: the runtime starts without the
 * collector, so a later call of hsa_init opens no window. If an entry is evicted, the
 * process is checked again. */
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 16384);
  __type(key, struct rocattach_process_key);
  __type(value, __u8);
} refused_processes SEC(".maps");

/* Late attaches that do not begin at a probe, by process ID: the window's number, which
 * the service has chosen. They have no claim until their collector reports. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, __u32);
  __type(value, __u64);
} late_windows SEC(".maps");

static __always_inline void make_key(struct task_struct* task,
                                     struct rocattach_process_key* key) {
  key->pid = READ(task, tgid);
  key->pad = 0;
  key->start_ns = READ(task, group_leader, start_boottime);
}

/* The calling process's claim, or null. */
FRAME struct rocattach_claim* my_claim(void) {
  struct rocattach_process_key key;
  make_key(current_task(), &key);
  return bpf_map_lookup_elem(&claims, &key);
}

/* The owner of the memory that the calling process runs in; null if no process has
 * opened a window there. */
FRAME struct rocattach_process_key* memory_owner(void) {
  struct rocattach_claim* claim = my_claim();
  return claim ? bpf_map_lookup_elem(&memories, &claim->mm) : 0;
}

/* The claim that a follower waits for: that of its memory's owner. */
FRAME struct rocattach_claim* awaited_claim(void) {
  struct rocattach_process_key* owner = memory_owner();
  return owner ? bpf_map_lookup_elem(&claims, owner) : my_claim();
}

/* The process that waits for the calling one to exec or end, because the calling one
 * runs in its memory (vfork); 0: none. */
FRAME __u32 vfork_parent(void) {
  struct task_struct* task = current_task();
  if (!BPF_CORE_READ(task, group_leader, vfork_done)) return 0;
  if (BPF_CORE_READ(task, group_leader, real_parent, mm) != BPF_CORE_READ(task, mm))
    return 0;
  return BPF_CORE_READ(task, group_leader, real_parent, tgid);
}

/* Makes the memory the calling process's own, unless it has an owner. True if it is
 * its own now. */
FRAME int own_memory(__u64 mm) {
  struct rocattach_process_key* owner;
  struct rocattach_process_key key;
  make_key(current_task(), &key);
  bpf_map_update_elem(&memories, &mm, &key, BPF_NOEXIST);
  owner = bpf_map_lookup_elem(&memories, &mm);
  /* No room: treated as not shared. */
  return !owner || (owner->pid == key.pid && owner->start_ns == key.start_ns);
}

/* The calling process leaves its memory: it ends or runs another program. */
FRAME int leave_memory(void) {
  struct rocattach_claim* claim = my_claim();
  struct rocattach_process_key* owner = memory_owner();
  struct task_struct* task = current_task();
  if (!claim || !owner || owner->pid != (__u32)READ(task, tgid) ||
      owner->start_ns != READ(task, group_leader, start_boottime))
    return 0;
  bpf_map_delete_elem(&memories, &claim->mm);
  return 1;
}

/* True if the calling process, whose claim has just been made or renewed, must yield
 * its window to another process. */
FRAME int shares_memory(void) {
  struct rocattach_claim* claim = my_claim();
  __u64 mm = (__u64)BPF_CORE_READ(current_task(), mm);
  if (!claim) return 0;
  claim->mm = mm;
  if (!vfork_parent() && own_memory(mm)) return 0;
  (void)SWAP(&claim->state, ROCATTACH_CLAIM_OPEN, ROCATTACH_CLAIM_RELEASED);
  return 1;
}

/* Results of claim_window. */
enum { NOT_MINE = 0, FIRST_WINDOW = 1, WINDOW_AGAIN = 2, FOLLOW = 3, SHARED = 4 };
/* Refused; plus an enum rocattach_budget. */
#define OVER_BUDGET 16

FRAME int is_refused(void) {
  struct rocattach_process_key key;
  make_key(current_task(), &key);
  return bpf_map_lookup_elem(&refused_processes, &key) != 0;
}

FRAME int remember_refused(void) {
  struct rocattach_process_key key;
  __u8 one = 1;
  make_key(current_task(), &key);
  return bpf_map_update_elem(&refused_processes, &key, &one, BPF_ANY);
}

FRAME int forget_refused(void) {
  struct rocattach_process_key key;
  make_key(current_task(), &key);
  return bpf_map_delete_elem(&refused_processes, &key);
}

/* Adds a claim of the calling process. The key is in a frame of its own: bpf/frame.h.
 * An int: before Linux 6.4 the upper half of what map helpers return is undefined,
 * since the JIT calls functions that return an int. */
FRAME int put_claim(struct rocattach_claim* claim) {
  struct rocattach_process_key key;
  make_key(current_task(), &key);
  return bpf_map_update_elem(&claims, &key, claim, BPF_NOEXIST);
}

FRAME int insert_claim(__u64 now_ns, __u32 charged_uid) {
  struct task_struct* task = current_task();
  struct rocattach_claim claim;
  claim.state = ROCATTACH_CLAIM_OPEN;
  claim.tid = READ(task, pid);
  claim.opened_ns = now_ns;
  claim.mm = (__u64)BPF_CORE_READ(task, mm);
  claim.due_ns = 0;
  claim.charged_uid = charged_uid;
  claim.reported = 0;
  return put_claim(&claim);
}

/* Claims the process's first window. */
FRAME int claim_first(__u64 now_ns) {
  __u32 user = charged_user();
  int rc;
  if (is_refused()) return NOT_MINE;
  if (!take_user_window(user, now_ns)) {
    remember_refused();
    return OVER_BUDGET + ROCATTACH_BUDGET_USER_WINDOWS;
  }
  if (!take_process(user)) {
    remember_refused();
    return OVER_BUDGET + ROCATTACH_BUDGET_USER_PROCESSES;
  }
  rc = insert_claim(now_ns, user);
  if (!rc) {
    COUNT(windows);
    return shares_memory() ? SHARED : FIRST_WINDOW;
  }
  return_process(user);
  if (rc == -17 /* EEXIST */) return FOLLOW; /* another thread was faster */
  COUNT(claims_full);
  return NOT_MINE;
}

/* Claims a further window of a known process. */
FRAME int claim_again(__u64 now_ns) {
  struct rocattach_claim* claim = my_claim();
  int budget = ROCATTACH_BUDGET_NONE;
  int first;
  if (!claim) return NOT_MINE;
  if (!take_process_window(&claim->due_ns, now_ns))
    budget = ROCATTACH_BUDGET_PROCESS_WINDOWS;
  else if (!take_user_window(claim->charged_uid, now_ns))
    budget = ROCATTACH_BUDGET_USER_WINDOWS;
  /* Once refused, always refused: its runtime starts without the collector. */
  if (!begin_turn(TURN_CLAIM)) return FOLLOW;
  first = SWAP(&claim->state, ROCATTACH_CLAIM_FORGOTTEN,
               budget ? ROCATTACH_CLAIM_RELEASED : ROCATTACH_CLAIM_OPEN);
  end_turn(TURN_CLAIM);
  if (!first) return FOLLOW; /* another thread was faster */
  if (budget) return OVER_BUDGET + budget;
  claim->tid = READ(current_task(), pid);
  claim->opened_ns = now_ns;
  COUNT(windows);
  return shares_memory() ? SHARED : WINDOW_AGAIN;
}

/* A waiting thread costs the service an event as well. */
FRAME int may_follow(__u64 now_ns) {
  struct rocattach_claim* claim = my_claim();
  return claim && claim->state == ROCATTACH_CLAIM_OPEN &&
         take_process_window(&claim->due_ns, now_ns) &&
         take_user_window(claim->charged_uid, now_ns);
}

/* Claims the window for the calling thread. Exactly one thread of a process wins; those
 * that enter while its window is open become followers. Of processes that share their
 * memory, one wins. */
FRAME int claim_window(__u64 now_ns) {
  struct rocattach_claim* claim = my_claim();
  int answer = FOLLOW;
  COUNT(hits);
  if (!claim) {
    answer = claim_first(now_ns);
  } else if (claim->state == ROCATTACH_CLAIM_FORGOTTEN) {
    answer = claim_again(now_ns);
  }
  if (answer == FOLLOW && !may_follow(now_ns)) return NOT_MINE;
  return answer;
}

/* Changes the claim's state, if it is still open. */
FRAME int settle_claim(__u32 state) {
  struct rocattach_claim* claim = my_claim();
  if (claim) (void)SWAP(&claim->state, ROCATTACH_CLAIM_OPEN, state);
  return 0;
}

/* Any code in the target can call the collector's functions at any rate, so each window
 * is allowed one report. */
FRAME int take_report(void) {
  struct rocattach_claim* claim = my_claim();
  __u32 window, seen;
  int first;
  if (!claim || !begin_turn(TURN_REPORT)) return 0;
  window = (__u32)claim->opened_ns | 1;
  seen = claim->reported;
  first = seen != window && SWAP(&claim->reported, seen, window);
  end_turn(TURN_REPORT);
  return first;
}

FRAME int end_late_window(__u64 window) {
  __u32 pid = READ(current_task(), tgid);
  __u64* expected = bpf_map_lookup_elem(&late_windows, &pid);
  if (!expected || *expected != window) return 0;
  bpf_map_delete_elem(&late_windows, &pid);
  return 1;
}

/* The process ends, or executes another program: no report comes any more, and a later
 * process may get its ID. True if its collector was taken over from an earlier service. */
FRAME int forget_late_window(void) {
  __u32 pid = READ(current_task(), tgid);
  int taken_over = end_late_window(0);
  bpf_map_delete_elem(&late_windows, &pid);
  return taken_over;
}

/* The collector of a late attach reports: if the service expects that, the process gets
 * its claim now. */
FRAME int claim_late(__u64 window) {
  __u32 user = charged_user();
  if (my_claim() || !end_late_window(window)) return 0;
  take_process(user);
  if (insert_claim(window, user)) {
    return_process(user);
    return 0;
  }
  COUNT(windows);
  shares_memory();
  return 1;
}

FRAME __u32 claim_charged_uid(void) {
  struct rocattach_claim* claim = my_claim();
  return claim ? claim->charged_uid : charged_user();
}

/* Lets the process's next hsa_init open a window. False if it has no claim. */
FRAME int forget_window(void) {
  struct rocattach_claim* claim = my_claim();
  if (!claim) return 0;
  claim->state = ROCATTACH_CLAIM_FORGOTTEN;
  return 1;
}

/* 0 if the process had a claim. */
FRAME int remove_claim(void) {
  struct rocattach_process_key key;
  struct rocattach_claim* claim = my_claim();
  __u32 user;
  int rc;
  if (!claim) return forget_refused(), -2 /* ENOENT */;
  user = claim->charged_uid;
  make_key(current_task(), &key);
  rc = bpf_map_delete_elem(&claims, &key);
  if (!rc) return_process(user);
  return rc;
}

#endif /* ROCATTACH_BPF_CLAIMS_H_ */
