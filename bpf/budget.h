/* Limits on the cost of one user's processes: the number of windows that they open per
 * second, and of processes known at a time. A process over budget is not held and
 * causes no event, so it costs neither the service nor other users anything. */
#ifndef ROCATTACH_BPF_BUDGET_H_
#define ROCATTACH_BPF_BUDGET_H_

#include "bpf/events.h"
#include "bpf/policy.h"

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 4096);
  __type(key, __u32);
  __type(value, struct rocattach_account);
} accounts SEC(".maps");

/* At most one refusal is reported per period; each one is counted. */
#define NOTIFY_PERIOD_NS 1000000000ull

/* The user whose budget the calling process is charged to: its own. In a user namespace
 * that a user has created, it is that user, because the process can become any of the
 * namespace's users. */
FRAME __u32 charged_user(void) {
  const struct cred* cred = READ(current_task(), cred);
  struct user_namespace* ns = READ(cred, user_ns);
  __u32 user = READ(cred, euid.val);
  for (int i = 0; i < 32 && ns && READ(ns, level) > 0; ++i) {
    if (READ(ns, owner.val)) user = READ(ns, owner.val);
    ns = READ(ns, parent);
  }
  return user;
}

/* The user's account; with too many users, a shared one. */
FRAME struct rocattach_account* account_of(__u32 user) {
  struct rocattach_account* found = bpf_map_lookup_elem(&accounts, &user);
  struct rocattach_account empty;
  if (found) return found;
  empty.due_ns = empty.notified_ns = empty.refused = 0;
  empty.processes = empty.pad = 0;
  bpf_map_update_elem(&accounts, &user, &empty, BPF_NOEXIST);
  found = bpf_map_lookup_elem(&accounts, &user);
  if (found) return found;
  user = ROCATTACH_OTHER_USERS;
  return bpf_map_lookup_elem(&accounts, &user);
}

/* Takes one window from a rate of one per `interval_ns`. *due_ns is the time at which
 * the next one is due at that rate; a window that is early by at most `burst_ns` is
 * allowed. If two come at exactly the same time, one may not be charged. */
FRAME int take_window(__u64* due_ns, __u64 now_ns, __u64 interval_ns, __u64 burst_ns) {
  __u64 seen_ns = *due_ns;
  __u64 next_ns = seen_ns < now_ns ? now_ns : seen_ns;
  if (!interval_ns) return 1;
  if (next_ns - now_ns > burst_ns) return 0;
  (void)SWAP(due_ns, seen_ns, next_ns + interval_ns);
  return 1;
}

FRAME int take_user_window(__u32 user, __u64 now_ns) {
  struct rocattach_account* account = account_of(user);
  if (!account) return 1;
  return take_window(&account->due_ns, now_ns, settings.window_interval_ns,
                     settings.window_burst_ns);
}

/* A process may use half of its user's rate. */
FRAME int take_process_window(__u64* due_ns, __u64 now_ns) {
  return take_window(due_ns, now_ns, 2 * settings.window_interval_ns,
                     settings.window_burst_ns);
}

/* Adds one process; false if the user already has as many as are allowed. */
FRAME int take_process(__u32 user) {
  struct rocattach_account* account = account_of(user);
  if (!account) return 1;
  if (settings.user_processes && account->processes >= settings.user_processes)
    return 0;
  __sync_fetch_and_add(&account->processes, 1);
  return 1;
}

FRAME int return_process(__u32 user) {
  struct rocattach_account* account = account_of(user);
  if (account && account->processes) __sync_fetch_and_add(&account->processes, -1);
  return 0;
}

/* Counts a window that was refused; true if the service is to be notified. */
FRAME int note_refusal(__u32 user, __u64 now_ns) {
  struct rocattach_account* account = account_of(user);
  __u64 notified_ns;
  COUNT(over_budget);
  if (!account) return 0;
  __sync_fetch_and_add(&account->refused, 1);
  notified_ns = account->notified_ns;
  if (notified_ns && now_ns - notified_ns < NOTIFY_PERIOD_NS) return 0;
  return SWAP(&account->notified_ns, notified_ns, now_ns);
}

FRAME __u64 refusals_of(__u32 user) {
  struct rocattach_account* account = account_of(user);
  return account ? account->refused : 0;
}

#endif /* ROCATTACH_BPF_BUDGET_H_ */
