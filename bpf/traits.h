/* Facts about a process that an injector needs, and that are read most quickly in the
 * kernel. */
#ifndef ROCATTACH_BPF_TRAITS_H_
#define ROCATTACH_BPF_TRAITS_H_

#include "bpf/frame.h"

/* include/uapi/linux/auxvec.h, include/uapi/linux/seccomp.h */
#define AT_NULL 0
#define AT_SECURE 23
#define SECCOMP_MODE_STRICT 1
/* include/uapi/asm-generic/resource.h */
#define RLIMIT_FSIZE 1
#define RLIMIT_DATA 2
#define RLIMIT_NOFILE 7
#define RLIMIT_AS 9
#define RLIM_INFINITY (~0ul)

/* ROCATTACH_WINDOW_SECURE if the process runs with more rights than its user's,
 * ROCATTACH_WINDOW_KNOWN if that could be read. */
FRAME __u64 secure_flags(void) {
  /* A number: newer verifiers allow no arithmetic on a pointer that may be null. */
  const __u64 mm = (__u64)BPF_CORE_READ(current_task(), mm);
  struct {
    unsigned long type, value;
  } entry;
  for (int i = 0; i < 32; ++i) {
    if (bpf_core_read(&entry, sizeof(entry),
                      (void*)(mm + bpf_core_field_offset(struct mm_struct, saved_auxv) +
                              i * sizeof(entry))) ||
        entry.type == AT_NULL)
      return 0;
    if (entry.type == AT_SECURE)
      return ROCATTACH_WINDOW_KNOWN | (entry.value ? ROCATTACH_WINDOW_SECURE : 0);
  }
  return 0;
}

/* One number for what determines a process's view of the file system: its mount
 * namespace and its root. Numbers are reused, so it may be cached for a second only. */
FRAME __u64 filesystem_view_id(void) {
  struct task_struct* task = current_task();
  __u64 mount = (__u64)BPF_CORE_READ(task, fs, root.mnt);
  __u64 dentry = (__u64)BPF_CORE_READ(task, fs, root.dentry);
  __u64 mounts = READ(task, nsproxy, mnt_ns, ns.inum);
  return (mounts * 0x9e3779b97f4a7c15ull) ^ mount ^ (dentry << 21 | dentry >> 43);
}

/* ROCATTACH_WINDOW_LIMITED if a limit has to be checked more closely. The descriptor
 * table grows on demand: if the limit is larger than the table, a descriptor is free.
 */
FRAME __u64 limit_flags(void) {
  struct task_struct* task = current_task();
  struct signal_struct* signal = READ(task, signal);
  if (READ(signal, rlim[RLIMIT_FSIZE].rlim_cur) == RLIM_INFINITY &&
      READ(signal, rlim[RLIMIT_DATA].rlim_cur) == RLIM_INFINITY &&
      READ(signal, rlim[RLIMIT_AS].rlim_cur) == RLIM_INFINITY &&
      READ(signal, rlim[RLIMIT_NOFILE].rlim_cur) >
          BPF_CORE_READ(task, files, fdt, max_fds))
    return 0;
  return ROCATTACH_WINDOW_LIMITED;
}

FRAME __u64 window_flags(__u32 again) {
  __u64 flags = secure_flags() | limit_flags();
  if (again) flags |= ROCATTACH_WINDOW_AGAIN;
  /* A kernel without CONFIG_SECCOMP has no mode. */
  if (bpf_core_field_exists(current_task()->seccomp.mode) &&
      READ(current_task(), seccomp.mode) == SECCOMP_MODE_STRICT)
    flags |= ROCATTACH_WINDOW_STRICT;
  return flags;
}

#endif /* ROCATTACH_BPF_TRAITS_H_ */
