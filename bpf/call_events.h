/* Types that the BPF programs and the service share, as in watch_events.h, for a
 * process that is entered at a call of the runtime, without a hold. */
#ifndef ROCATTACH_BPF_CALL_EVENTS_H_
#define ROCATTACH_BPF_CALL_EVENTS_H_

#include "bpf/watch_events.h"

/* Maximum at a time; array `calls` of the kernel side, which the service maps. */
#define ROCATTACH_CALLS 64

enum rocattach_call_state {
  ROCATTACH_CALL_OFF = 0,      /* a call opens a window instead */
  ROCATTACH_CALL_AWAITED = 1,  /* set by the service: the next call is noted */
  ROCATTACH_CALL_NOTING = 2,   /* the kernel side fills in the other fields */
  ROCATTACH_CALL_SEEN = 3,     /* `tid` is at a call of the function at `ip` */
  ROCATTACH_CALL_ARMED = 4,    /* set by the service: the thread's next call stops it */
  ROCATTACH_CALL_STOPPING = 5, /* the thread has been sent the signal */
};

struct rocattach_call {
  rwa_u32 state; /* enum rocattach_call_state; changed by compare and swap */
  rwa_u32 tid;
  rwa_u32 cpu; /* on which the thread ran */
  rwa_u32 pad;
  rwa_u64 ip;       /* address of the probed instruction */
  rwa_u64 sp;       /* the thread's stack pointer there */
  rwa_u64 start_ns; /* start_boottime of the process's first thread */
  rwa_u64 mm;       /* the process's mm_struct: another one after an exec */
  rwa_u64 hit_ns;   /* time of the call at which the thread stops */
  rwa_u64 unused;
};
ROCATTACH_ASSERT(sizeof(struct rocattach_call) == 64);

#endif /* ROCATTACH_BPF_CALL_EVENTS_H_ */
