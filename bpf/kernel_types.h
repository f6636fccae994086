/* The few kernel types that our programs access, reduced by hand to the fields that are
 * read: CO-RE relocates every access to the running kernel's layout, so order and
 * missing fields do not matter. Nothing is generated from the build machine. Field
 * names and meanings: include/linux/sched.h, include/linux/sched/signal.h,
 * include/linux/pid.h, include/linux/cred.h, include/linux/user_namespace.h,
 * include/linux/mm_types.h, include/linux/fs.h, include/linux/cgroup-defs.h,
 * include/linux/kernfs.h. */
#ifndef ROCATTACH_BPF_KERNEL_TYPES_H_
#define ROCATTACH_BPF_KERNEL_TYPES_H_

typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;

enum bpf_map_type {
  BPF_MAP_TYPE_HASH = 1,
  BPF_MAP_TYPE_ARRAY = 2,
  BPF_MAP_TYPE_PERCPU_ARRAY = 6,
  BPF_MAP_TYPE_LRU_HASH = 9,
  BPF_MAP_TYPE_RINGBUF = 27,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1, BPF_EXIST = 2 };
enum { BPF_F_MMAPABLE = 1 << 10 };
enum { BPF_RB_NO_WAKEUP = 1, BPF_RB_FORCE_WAKEUP = 2 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct pid_namespace;

struct upid {
  int nr;
};

struct pid {
  unsigned int level;
  struct upid numbers[1];
};

typedef struct {
  unsigned int val;
} kuid_t;

struct user_namespace {
  struct user_namespace* parent;
  int level; /* 0: the initial one */
  kuid_t owner;
};

struct cred {
  kuid_t uid;
  kuid_t euid;
  struct user_namespace* user_ns;
};

typedef struct {
  unsigned long sig[1];
} sigset_t;

struct sigpending {
  sigset_t signal;
};

typedef struct {
  int counter;
} atomic_t;

struct sigaction {
  void* sa_handler;
};

struct k_sigaction {
  struct sigaction sa;
};

struct sighand_struct {
  struct k_sigaction action[64];
};

struct seccomp {
  int mode;
};

struct fdtable {
  unsigned int max_fds;
};

struct files_struct {
  struct fdtable* fdt;
};

struct rlimit {
  unsigned long rlim_cur;
};

struct signal_struct {
  atomic_t live;
  struct rlimit rlim[16];
  unsigned int flags;
  int group_stop_count;
  int group_exit_code;
  struct sigpending shared_pending;
};

struct mm_struct {
  unsigned long saved_auxv[1];
};

struct ns_common {
  unsigned int inum;
};

struct mnt_namespace {
  struct ns_common ns;
};

struct nsproxy {
  struct mnt_namespace* mnt_ns;
};

struct vfsmount;

struct qstr {
  const unsigned char* name;
};

struct dentry {
  struct qstr d_name;
};

struct path {
  struct vfsmount* mnt;
  struct dentry* dentry;
};

struct fs_struct {
  struct path root;
};

struct super_block {
  unsigned int s_dev;
};

struct inode {
  struct super_block* i_sb;
  unsigned long i_ino;
  __s64 i_ctime_sec;
  __u32 i_ctime_nsec;
};

struct timespec64 {
  __s64 tv_sec;
  long tv_nsec;
};

/* The same from 6.6 to 6.10. */
struct inode___before_6_11 {
  struct timespec64 __i_ctime;
};

struct file {
  struct path f_path;
  struct inode* f_inode;
};

struct vm_area_struct {
  unsigned long vm_start;
  unsigned long vm_end;
  unsigned long vm_flags;
  unsigned long vm_pgoff;
  struct file* vm_file;
};

/* Empty without CONFIG_SCHED_INFO. */
struct sched_info {
  unsigned long long run_delay;
};

struct completion;

struct cgroup;

struct cgroup_subsys_state {
  struct cgroup* cgroup;
  struct cgroup_subsys_state* parent;
};

struct kernfs_node {
  __u64 id;
};

struct cgroup {
  struct cgroup_subsys_state self;
  struct kernfs_node* kn;
};

struct css_set {
  struct cgroup* dfl_cgrp;
};

struct task_struct {
  int pid;
  int tgid;
  unsigned int ptrace;
  int exit_code;
  unsigned long jobctl;
  unsigned int policy;
  unsigned long nvcsw;
  struct sched_info sched_info;
  struct completion* vfork_done;
  __u64 start_boottime;
  struct task_struct* group_leader;
  struct task_struct* real_parent;
  struct task_struct* parent;
  struct pid* thread_pid;
  struct signal_struct* signal;
  struct sighand_struct* sighand;
  struct sigpending pending;
  sigset_t blocked;
  const struct cred* cred;
  struct seccomp seccomp;
  struct mm_struct* mm;
  struct nsproxy* nsproxy;
  struct fs_struct* fs;
  struct files_struct* files;
  struct css_set* cgroups;
  char comm[16];
};

#pragma clang attribute pop

/* x86-64 registers in the context of a uprobe program: fixed ABI, no CO-RE. */
struct pt_regs {
  unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
  unsigned long orig_ax, ip, cs, flags, sp, ss;
};

struct bpf_raw_tracepoint_args {
  __u64 args[2];
};

#endif /* ROCATTACH_BPF_KERNEL_TYPES_H_ */
