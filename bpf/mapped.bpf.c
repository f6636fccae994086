/* Wakes the service when a process maps a file that is named like the HSA runtime. The
 * kernel's own records of mappings (PERF_RECORD_MMAP2) have all other information, but
 * a reader that must not miss one would have to be woken for each mapping of each
 * process on the machine. A separate object: not all kernels can attach it. */
#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

enum { EXECUTABLE = 4 }; /* VM_EXEC of include/linux/mm.h */

/* Each entry is one wake-up and carries no data: while the ring is full, a wake-up of
 * the reader is pending anyway. */
struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
} wakeups SEC(".maps");

/* True if the name begins with "libhsa-runtime64". */
static __always_inline int is_runtime(const unsigned char* name) {
  static const char runtime[16] = {'l', 'i', 'b', 'h', 's', 'a', '-', 'r',
                                   'u', 'n', 't', 'i', 'm', 'e', '6', '4'};
  char begin[16] = {};
  int i;
  if (bpf_probe_read_kernel(begin, sizeof(begin), name) != 0) return 0;
  for (i = 0; i < 16; i++) {
    if (begin[i] != runtime[i]) return 0;
  }
  return 1;
}

/* Runs after perf_event_mmap(vma) has written its record, on the same processor. */
SEC("fexit/perf_event_mmap")
int library_mapped(unsigned long long* ctx) {
  struct vm_area_struct* vma = (struct vm_area_struct*)ctx[0];
  struct file* file;
  __u64* wakeup;

  if (!(BPF_CORE_READ(vma, vm_flags) & EXECUTABLE)) return 0;
  file = BPF_CORE_READ(vma, vm_file);
  if (!file || !is_runtime(BPF_CORE_READ(file, f_path.dentry, d_name.name))) return 0;
  wakeup = bpf_ringbuf_reserve(&wakeups, sizeof(*wakeup), 0);
  if (!wakeup) return 0;
  *wakeup = 0;
  bpf_ringbuf_submit(wakeup, BPF_RB_FORCE_WAKEUP);
  return 0;
}
