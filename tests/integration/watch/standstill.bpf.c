/* Makes the machine stand still when a process calls ptrace: the caller's processor is
 * kept busy in the tracepoint, and the others in a timer. Spinning threads cannot do
 * this: since Linux 6.12 each processor keeps 50 ms of a second for ordinary threads,
 * however busy its real-time threads are. */
#include "bpf/kernel_types.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define PROCESSORS 1024
#define NR_PTRACE 101 /* x86-64 */
/* include/uapi/linux/time.h, bpf.h */
#define CLOCK_BOOTTIME 7
#define BPF_F_TIMER_CPU_PIN (1u << 1)
/* Period at which the other processors check the time: they follow that late. */
#define LOOK_NS 1000000

struct bpf_timer {
  __u64 opaque[2];
} __attribute__((aligned(8)));

struct processor {
  struct bpf_timer timer;
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, PROCESSORS);
  __type(key, __u32);
  __type(value, struct processor);
} processors SEC(".maps");

/* The request that triggers a standstill, and its length: set before `watched`. */
__u64 request;
__u64 still_ns;
/* The process whose next such request triggers it; 0: none. */
int watched;
/* The end of it (CLOCK_BOOTTIME); the number of standstills so far. */
__u64 until_ns;
int standstills;

static long look(__u32 index, void* unused) {
  return bpf_ktime_get_boot_ns() >= until_ns;
}

static __always_inline void stand_still(void) {
  int i;
  /* One bpf_loop ends after 8 million rounds, some 300 ms. */
  for (i = 0; i < 64 && bpf_ktime_get_boot_ns() < until_ns; ++i) {
    bpf_loop(1u << 23, look, 0, 0);
  }
}

SEC("raw_tp/sys_enter")
int on_call(struct bpf_raw_tracepoint_args* context) {
  const struct pt_regs* registers = (const struct pt_regs*)context->args[0];
  const int caller = (int)(bpf_get_current_pid_tgid() >> 32);
  if (context->args[1] != NR_PTRACE || !watched || caller != watched) return 0;
  if (BPF_CORE_READ(registers, di) != request) return 0;
  if (!__sync_bool_compare_and_swap(&watched, caller, 0)) return 0;
  until_ns = bpf_ktime_get_boot_ns() + still_ns;
  stand_still();
  ++standstills;
  return 0;
}

static int on_timer(void* map, __u32* key, struct processor* processor) {
  stand_still();
  bpf_timer_start(&processor->timer, LOOK_NS, BPF_F_TIMER_CPU_PIN);
  return 0;
}

/* Run once on each processor. Returns 0 or an errno. */
SEC("tc")
int arm(struct __sk_buff* unused) {
  __u32 key = bpf_get_smp_processor_id();
  struct processor* processor = bpf_map_lookup_elem(&processors, &key);
  long error;
  if (!processor) return 7; /* E2BIG */
  error = bpf_timer_init(&processor->timer, &processors, CLOCK_BOOTTIME);
  if (!error) error = bpf_timer_set_callback(&processor->timer, on_timer);
  if (!error) {
    error = bpf_timer_start(&processor->timer, LOOK_NS, BPF_F_TIMER_CPU_PIN);
  }
  return (int)-error;
}
