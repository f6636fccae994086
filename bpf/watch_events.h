/* Events and settings that the BPF programs and the service share. Plain C, fixed
 * width, explicit padding; sizes asserted on both sides. Times are CLOCK_BOOTTIME
 * nanoseconds. */
#ifndef ROCATTACH_BPF_WATCH_EVENTS_H_
#define ROCATTACH_BPF_WATCH_EVENTS_H_

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t rwa_u8;
typedef uint16_t rwa_u16;
typedef uint32_t rwa_u32;
typedef uint64_t rwa_u64;
typedef int32_t rwa_s32;
#else
typedef unsigned char rwa_u8;
typedef unsigned short rwa_u16;
typedef unsigned int rwa_u32;
typedef unsigned long long rwa_u64;
typedef int rwa_s32;
#endif

#define ROCATTACH_EVENT_VERSION 3
#define ROCATTACH_COMM_BYTES 16

enum rocattach_event_type {
  ROCATTACH_EVENT_WINDOW = 1,   /* first hsa_init of a process */
  ROCATTACH_EVENT_READY = 2,    /* a collector reports its memory */
  ROCATTACH_EVENT_EXIT = 3,     /* a process whose window we saw has ended */
  ROCATTACH_EVENT_EXEC = 4,     /* … has replaced its program */
  ROCATTACH_EVENT_HOLD_END = 5, /* the hold of a window is over; how, and how long */
  ROCATTACH_EVENT_FOLLOW =
      6, /* another thread waits for an open window to be settled */
};

/* A thread of the target waits until the service has taken this event. */
#define ROCATTACH_IS_URGENT(type)                                         \
  ((type) == ROCATTACH_EVENT_WINDOW || (type) == ROCATTACH_EVENT_READY || \
   (type) == ROCATTACH_EVENT_FOLLOW)

/* What the probe did with a window. */
enum rocattach_window_mode {
  ROCATTACH_WINDOW_REPORTED = 0,  /* not held: watching only */
  ROCATTACH_WINDOW_HELD = 1,      /* the thread yields inside the probe */
  ROCATTACH_WINDOW_SIGNALLED = 2, /* signal hold mode: a private stop, seized already */
  ROCATTACH_WINDOW_DENIED = 3,    /* in-kernel deny list */
  ROCATTACH_WINDOW_PAUSED = 4,    /* the service has paused attaching */
  ROCATTACH_WINDOW_UNRELATED = 5, /* not below settings.only_below */
  /* Refused: beyond a budget. Reported once a second for each user. */
  ROCATTACH_WINDOW_OVER_BUDGET = 6,
  ROCATTACH_WINDOW_SHARED = 7,   /* shares its memory with a process that goes first */
  ROCATTACH_WINDOW_UNSERVED = 8, /* the service is stopped: not held */
};

/* Which one; args[1] of such a window. */
enum rocattach_budget {
  ROCATTACH_BUDGET_NONE = 0,
  ROCATTACH_BUDGET_USER_WINDOWS = 1,    /* windows a second of the user's processes */
  ROCATTACH_BUDGET_PROCESS_WINDOWS = 2, /* windows a second of this process */
  ROCATTACH_BUDGET_USER_PROCESSES = 3,  /* processes of the user at a time */
};

/* The account of all users for whom there is no room; map `accounts`. */
#define ROCATTACH_OTHER_USERS 0xffffffffu

/* The signal of the signal hold mode: SIGURG, which nobody hears who has no handler for
 * it. Should the service die while a thread stands in its stop, the kernel delivers it.
 * A SIGSTOP would then stop the process for good. */
#define ROCATTACH_STOP_SIGNAL 23

/* Bits of a WINDOW event's args[0]. Without KNOWN, which the signal hold mode never
 * sets, only AGAIN has a meaning, and so has no other argument. */
#define ROCATTACH_WINDOW_AGAIN 1u /* the process had a window before */
#define ROCATTACH_WINDOW_KNOWN \
  2u /* all below, the CPU and filesystem_view_id are known */
#define ROCATTACH_WINDOW_SECURE 4u /* AT_SECURE is set */
#define ROCATTACH_WINDOW_STRICT 8u /* seccomp's strict mode */
#define ROCATTACH_WINDOW_LIMITED \
  16u /* a resource limit may be in the collector's way */

/* Why a hold ended. */
enum rocattach_hold_end {
  ROCATTACH_HOLD_STOPPED = 1, /* the injector's ptrace stop is pending */
  ROCATTACH_HOLD_DEADLINE = 2,
  ROCATTACH_HOLD_KILLED = 3,     /* a fatal signal is pending */
  ROCATTACH_HOLD_RELEASED = 4,   /* the service said so */
  ROCATTACH_HOLD_UNYIELDING = 5, /* the CPU could not be given away while holding */
  ROCATTACH_HOLD_UNSERVED = 6,   /* the service has been stopped meanwhile */
};

struct rocattach_event {
  rwa_u16 version;
  rwa_u16 size; /* sizeof(struct rocattach_event) */
  rwa_u32 type; /* enum rocattach_event_type */
  rwa_u64 time_ns;
  rwa_u32 pid; /* tgid as the service sees it (initial namespace) */
  rwa_u32 tid;
  rwa_u32 inner_pid; /* tgid in the innermost pid namespace */
  rwa_u32 inner_tid;
  rwa_u64 start_ns; /* the process's start_boottime */
  rwa_u64 cgroup_id;
  rwa_u32 uid;
  rwa_u32 mode;   /* WINDOW: enum rocattach_window_mode; HOLD_END: rocattach_hold_end */
  rwa_u64 cookie; /* WINDOW: number of the library copy */
  rwa_u64 ip;     /* WINDOW: address of the probed instruction */
  rwa_u64 sp;     /* WINDOW: the thread's stack pointer there */
  rwa_u32 layout; /* WINDOW, held: number of its rocattach_layout, plus one; 0: none */
  rwa_u32 charged_uid; /* WINDOW: the user whose budgets it counts for */
  /* WINDOW: ROCATTACH_WINDOW_* bits, CPU of the thread, filesystem_view_id;
   * WINDOW, OVER_BUDGET: 0, enum rocattach_budget, windows of the user that were
   * refused so far; WINDOW, SHARED: the bits, tgid of the process that goes first, 1 if
   * that one waits for this child of a vfork; FOLLOW: tgid and start_ns of the process
   * whose window is open; READY: memory, bytes, window id; EXIT: exit_code as in
   * wait(2); HOLD_END: nanoseconds held, loop rounds, window's time_ns */
  rwa_u64 args[3];
  char comm[ROCATTACH_COMM_BYTES];
};

/* Which file, and which contents: numbers that mean something to the kernel only. */
struct rocattach_file_key {
  rwa_u64 inode;
  rwa_u64 version; /* its change time */
  rwa_u32 device;
  rwa_u32 pad;
};

/* What the service has said of a file; map `file_kinds`. */
enum rocattach_file_kind {
  ROCATTACH_FILE_UNKNOWN = 0,
  ROCATTACH_FILE_PLAIN = 1,      /* of no interest: left out of layouts */
  ROCATTACH_FILE_NOTEWORTHY = 2, /* a C library, a collector, an emulator */
};

/* One mapping of a file. */
struct rocattach_mapped_file {
  rwa_u64 start;
  rwa_u64 end;
  rwa_u64 offset; /* in the file, bytes */
  struct rocattach_file_key key;
  rwa_u32 access; /* VM_READ 1, WRITE 2, EXEC 4, SHARED 8, GROWSDOWN 0x100 */
  rwa_u32 kind;   /* enum rocattach_file_kind */
};

/* Bits of rocattach_layout.flags. */
#define ROCATTACH_LAYOUT_UNKNOWN 1u   /* has files that the service has not judged */
#define ROCATTACH_LAYOUT_FULL 2u      /* more files than entries */
#define ROCATTACH_LAYOUT_COLLECTOR 4u /* a collector's shared memory is mapped */

#define ROCATTACH_LAYOUTS 256
#define ROCATTACH_LAYOUT_FILES 24
/* How the name of a collector's shared memory begins (a memfd). */
#define ROCATTACH_MEMORY_NAME "memfd:rocattach"

/* A held process, as an attach needs to know it; map `layouts`, which the service maps
 * into its memory. Written by the thread that is held. Executable mappings of files
 * that are not plain, and the one around the window. */
struct rocattach_layout {
  rwa_u64 held_ns;   /* time_ns of the window whose thread is held; 0: no more */
  rwa_u64 window_ns; /* the same, once all below is written; 0: being written */
  rwa_u32 tid;       /* the thread that is held */
  rwa_u32 flags;
  rwa_u32 count; /* of files */
  rwa_u32 stack_access;
  rwa_u64 ip; /* the window */
  rwa_u64 sp;
  rwa_u64 stack_start; /* the mapping below sp; 0: none */
  rwa_u64 stack_end;
  struct rocattach_mapped_file files[ROCATTACH_LAYOUT_FILES];
};

/* The service writes this; map `settings`, key 0. */
struct rocattach_settings {
  rwa_u32 hold;         /* 1: hold new windows */
  rwa_u32 paused;       /* 1: neither hold nor attach, only report */
  rwa_u32 service_tgid; /* whose ptrace stop ends a hold */
  rwa_u32 hold_mode;    /* 0 yielding, 1 signal (a private stop) */
  rwa_u64 limit_ns;     /* longest hold */
  rwa_u32 only_uid_set; /* 1: only processes of `only_uid` */
  rwa_u32 only_uid;
  rwa_u32 only_below;     /* only processes below this tgid; 0: all */
  rwa_u32 user_processes; /* of one user, known at a time; 0: no limit */
  /* One user's windows: one in this time, 0: no limit; so much ahead of that. */
  rwa_u64 window_interval_ns;
  rwa_u64 window_burst_ns;
};

/* Counters; map `stats`, a per-CPU array of one. */
struct rocattach_bpf_stats {
  rwa_u64 hits;        /* probe entries, repeated ones included */
  rwa_u64 windows;     /* first entries */
  rwa_u64 lost;        /* events that found no room in the ring */
  rwa_u64 claims_full; /* first entries that found no room in the claims map */
  rwa_u64 held;
  rwa_u64 deadlines;
  rwa_u64 over_budget; /* windows that were refused for that */
};

#endif /* ROCATTACH_BPF_WATCH_EVENTS_H_ */
