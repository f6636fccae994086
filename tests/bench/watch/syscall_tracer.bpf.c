/* Finds loads of the HSA runtime in a way that the service does not use: by the
 * system calls of all processes. Files opened by openat are compared by name; of
 * mmap, executable mappings of a descriptor are counted. */
#include "bpf/kernel_types.h"

#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define NAME_BYTES 256
#define PROT_EXEC 4
#define LOOK_FOR "libhsa-runtime64"

/* The kernel's layout of the arguments of these tracepoints. */
struct entered {
  __u64 common;
  __u64 number;
  __u64 arguments[6];
};
struct left {
  __u64 common;
  __u64 number;
  __s64 result;
};

struct file_name {
  char name[NAME_BYTES];
};

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, struct file_name);
} paths SEC(".maps");

/* Threads in one of the two calls, with 1 if the call may concern the runtime. */
struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 16384);
  __type(key, __u64);
  __type(value, __u32);
} calls SEC(".maps");

__u64 opened, mapped;

struct search {
  const char* name;
  __u32 begin; /* of the last part of the path */
};

static long next_part(__u32 index, struct search* search) {
  const char letter = search->name[index & (NAME_BYTES - 1)];
  if (letter == '/') search->begin = index + 1;
  return letter == 0;
}

static __always_inline __u32 is_runtime(const char* name) {
  struct search search = {name, 0};
  int i;
  bpf_loop(NAME_BYTES, next_part, &search, 0);
  for (i = 0; i < (int)sizeof(LOOK_FOR) - 1; ++i) {
    if (name[(search.begin + i) & (NAME_BYTES - 1)] != LOOK_FOR[i]) return 0;
  }
  return 1;
}

SEC("tracepoint/syscalls/sys_enter_openat")
int enter_openat(struct entered* call) {
  const __u64 thread = bpf_get_current_pid_tgid();
  __u32 zero = 0, found;
  struct file_name* path = bpf_map_lookup_elem(&paths, &zero);
  long bytes;
  if (!path) return 0;
  bytes = bpf_probe_read_user_str(path->name, sizeof(path->name),
                                  (const void*)call->arguments[1]);
  found = bytes > 0 && is_runtime(path->name);
  bpf_map_update_elem(&calls, &thread, &found, 0);
  return 0;
}

SEC("tracepoint/syscalls/sys_exit_openat")
int exit_openat(struct left* call) {
  const __u64 thread = bpf_get_current_pid_tgid();
  const __u32* found = bpf_map_lookup_elem(&calls, &thread);
  if (found && *found && call->result >= 0) __sync_fetch_and_add(&opened, 1);
  bpf_map_delete_elem(&calls, &thread);
  return 0;
}

SEC("tracepoint/syscalls/sys_enter_mmap")
int enter_mmap(struct entered* call) {
  const __u64 thread = bpf_get_current_pid_tgid();
  const __u32 code =
      (call->arguments[2] & PROT_EXEC) != 0 && (__s32)call->arguments[4] >= 0;
  bpf_map_update_elem(&calls, &thread, &code, 0);
  return 0;
}

SEC("tracepoint/syscalls/sys_exit_mmap")
int exit_mmap(struct left* call) {
  const __u64 thread = bpf_get_current_pid_tgid();
  const __u32* code = bpf_map_lookup_elem(&calls, &thread);
  if (code && *code && call->result > 0) __sync_fetch_and_add(&mapped, 1);
  bpf_map_delete_elem(&calls, &thread);
  return 0;
}
