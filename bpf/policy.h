/* Settings and denials, which decide how a window is treated. */
#ifndef ROCATTACH_BPF_POLICY_H_
#define ROCATTACH_BPF_POLICY_H_

#include "bpf/frame.h"

struct comm_key {
  char comm[ROCATTACH_COMM_BYTES];
};

/* Written by the service; zeros until then. */
struct rocattach_settings settings;

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1024);
  __type(key, struct comm_key);
  __type(value, __u8);
} deny_comm SEC(".maps");

/* The service, by its ID in the initial namespace. The service itself reads `tgid`. */
struct {
  __u32 tgid;
  __u32 gone; /* it has ended: held threads are not served */
  __u64 start_ns;
  /* Addresses of its signal_struct and its first thread, valid until it ends; 0: not
   * known. */
  __u64 signal;
  __u64 leader;
} service;

/* include/linux/sched/signal.h */
#define SIGNAL_STOP_STOPPED 0x1u
/* include/linux/sched/jobctl.h: frozen by its control group, or about to be. */
#define JOBCTL_TRAP_FREEZE (1ul << 23)

/* True while the service is stopped (SIGSTOP, ^Z) or frozen, and so cannot act. */
FRAME int is_unserved(void) {
  struct signal_struct* signal = (void*)service.signal;
  struct task_struct* leader = (void*)service.leader;
  if (!signal || !leader || service.gone) return 0;
  return (BPF_CORE_READ(signal, flags) & SIGNAL_STOP_STOPPED) ||
         BPF_CORE_READ(signal, group_stop_count) ||
         (BPF_CORE_READ(leader, jobctl) & JOBCTL_TRAP_FREEZE);
}

/* True if the first thread's name is denied, as in the service's policy. */
FRAME int is_denied(void) {
  struct comm_key comm = {};
  struct task_struct* leader = READ(current_task(), group_leader);
  bpf_core_read_str(comm.comm, sizeof(comm.comm), &leader->comm);
  return bpf_map_lookup_elem(&deny_comm, &comm) != 0;
}

/* True if the process `tgid` is among the calling process's ancestors. */
FRAME int is_below(__u32 tgid) {
  struct task_struct* task = current_task();
  for (int i = 0; i < 64; ++i) {
    __u32 ancestor = READ(task, tgid);
    if (ancestor == tgid) return 1;
    if (ancestor <= 1) return 0;
    task = READ(task, real_parent);
  }
  return 0;
}

/* Control groups may be nested deeper; the kernel's own default limit is higher. */
#define CGROUP_LEVELS 32

#ifdef ROCATTACH_OLDER_KERNELS

/* The same as below, for kernels whose probes have no helper for it. */
FRAME int is_in_cgroup(__u64 id) {
  struct cgroup* group = READ(current_task(), cgroups, dfl_cgrp);
  for (int level = 0; level < CGROUP_LEVELS && group; ++level) {
    if (READ(group, kn, id) == id) return 1;
    group = READ(group, self.parent, cgroup);
  }
  return 0;
}

#else

/* True if the calling process is in the control group `id` or in one below it. */
FRAME int is_in_cgroup(__u64 id) {
  for (int level = 0; level < CGROUP_LEVELS; ++level) {
    __u64 ancestor = bpf_get_current_ancestor_cgroup_id(level);
    if (ancestor == id) return 1;
    if (!ancestor) return 0; /* deeper than the process's own group */
  }
  return 0;
}

#endif

/* Returns the mode in which this window is to be treated. */
static __always_inline __u32 window_mode(__u32 wanted) {
  if (settings.only_below && !is_below(settings.only_below))
    return ROCATTACH_WINDOW_UNRELATED;
  if (is_denied()) return ROCATTACH_WINDOW_DENIED;
  if (settings.only_uid_set &&
      READ(current_task(), cred, euid.val) != settings.only_uid)
    return ROCATTACH_WINDOW_DENIED;
  /* After the filters: windows that they exclude do not matter in a pause either. */
  if (settings.paused) return ROCATTACH_WINDOW_PAUSED;
  if (!settings.hold) return ROCATTACH_WINDOW_REPORTED;
  if (wanted != ROCATTACH_WINDOW_SHARED && is_unserved())
    return ROCATTACH_WINDOW_UNSERVED;
  return wanted;
}

#endif /* ROCATTACH_BPF_POLICY_H_ */
