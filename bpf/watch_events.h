/* All types that the BPF programs and the service share. Plain C, fixed width, explicit
 * padding; sizes and offsets are asserted by both compilers. Times are CLOCK_BOOTTIME
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

#ifdef __cplusplus
#define ROCATTACH_ASSERT(condition) \
  static_assert(condition, "shared with the kernel side")
#else
#define ROCATTACH_ASSERT(condition) _Static_assert(condition, "shared with the service")
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

/* The mode of a READY event that the service makes itself: the collector is one that an
 * earlier service has left in the process. */
#define ROCATTACH_READY_TAKEN_OVER 1

/* A thread of the target waits until the service has taken this event. */
#define ROCATTACH_IS_URGENT(type)                                         \
  ((type) == ROCATTACH_EVENT_WINDOW || (type) == ROCATTACH_EVENT_READY || \
   (type) == ROCATTACH_EVENT_FOLLOW)

/* The probe's treatment of a window. */
enum rocattach_window_mode {
  ROCATTACH_WINDOW_REPORTED = 0,  /* not held: watching only */
  ROCATTACH_WINDOW_HELD = 1,      /* the thread yields inside the probe */
  ROCATTACH_WINDOW_SIGNALLED = 2, /* signal hold mode: a private stop, already seized */
  ROCATTACH_WINDOW_DENIED = 3,    /* in-kernel deny list */
  ROCATTACH_WINDOW_PAUSED = 4,    /* the service has paused attaching */
  ROCATTACH_WINDOW_UNRELATED = 5, /* not below settings.only_below */
  /* Refused: beyond a budget. Reported once a second for each user. */
  ROCATTACH_WINDOW_OVER_BUDGET = 6,
  ROCATTACH_WINDOW_SHARED = 7,   /* shares its memory with the window's owner */
  ROCATTACH_WINDOW_UNSERVED = 8, /* the service is stopped: not held */
  /* Modes of late attaches, set by the service. */
  ROCATTACH_WINDOW_BLOCKED = 9,     /* a thread that is blocked in a system call */
  ROCATTACH_WINDOW_TAKEN_OVER = 10, /* the collector of an earlier service */
  ROCATTACH_WINDOW_LISTENER = 11,   /* the thread that waits for attachers */
};

/* The budget that was exceeded. */
enum rocattach_budget {
  ROCATTACH_BUDGET_NONE = 0,
  ROCATTACH_BUDGET_USER_WINDOWS = 1,    /* windows a second of the user's processes */
  ROCATTACH_BUDGET_PROCESS_WINDOWS = 2, /* windows a second of this process */
  ROCATTACH_BUDGET_USER_PROCESSES = 3,  /* processes of the user at a time */
};

/* The account of all users for whom there is no room; map `accounts`. */
#define ROCATTACH_OTHER_USERS 0xffffffffu

/* The signal of the signal hold mode: SIGURG, which is ignored without a handler. If
 * the service dies while a thread is in this stop, the kernel delivers the signal. A
 * SIGSTOP would then stop the process for good. */
#define ROCATTACH_STOP_SIGNAL 23

/* Bits of rocattach_window_event.flags. Without KNOWN, which the signal hold mode never
 * sets, only AGAIN is valid, and the other fields are not. */
#define ROCATTACH_WINDOW_AGAIN 1u    /* the process had a window before */
#define ROCATTACH_WINDOW_KNOWN 2u    /* all below and all fields are known */
#define ROCATTACH_WINDOW_SECURE 4u   /* AT_SECURE is set */
#define ROCATTACH_WINDOW_STRICT 8u   /* seccomp's strict mode */
#define ROCATTACH_WINDOW_LIMITED 16u /* a resource limit may affect the collector */

/* The reason for which a hold ended. */
enum rocattach_hold_end {
  ROCATTACH_HOLD_STOPPED = 1, /* the injector's ptrace stop is pending */
  ROCATTACH_HOLD_DEADLINE = 2,
  ROCATTACH_HOLD_KILLED = 3,     /* a fatal signal is pending */
  ROCATTACH_HOLD_RELEASED = 4,   /* released by the service */
  ROCATTACH_HOLD_UNYIELDING = 5, /* the thread could not yield its CPU */
  ROCATTACH_HOLD_UNSERVED = 6,   /* the service has been stopped meanwhile */
};

/* A process identity: a pid is reused, a pid with its start time is not. */
struct rocattach_process_key {
  rwa_u32 pid; /* tgid in the initial namespace */
  rwa_u32 pad;
  rwa_u64 start_ns; /* start_boottime of its first thread */
};
ROCATTACH_ASSERT(sizeof(struct rocattach_process_key) == 16);

/* A window that is held or reported. */
struct rocattach_window_event {
  rwa_u32 flags; /* ROCATTACH_WINDOW_* bits */
  rwa_u32 cpu;   /* the thread's */
  /* Equal for processes with the same mount namespace and root. */
  rwa_u64 filesystem_view_id;
};

/* A window of mode OVER_BUDGET. */
struct rocattach_over_budget_event {
  rwa_u32 flags;   /* 0 */
  rwa_u32 budget;  /* enum rocattach_budget */
  rwa_u64 refused; /* number of the user's refused windows so far */
};

/* A window of mode SHARED. */
struct rocattach_shared_event {
  rwa_u32 flags;          /* 0 */
  rwa_u32 owner_pid;      /* tgid of the process with the window */
  rwa_u32 is_vfork_child; /* 1: the owner waits for this child of a vfork */
  rwa_u32 pad;
};

/* READY: the arguments of rocattach_collector_ready(). */
struct rocattach_ready_event {
  rwa_u64 memory;         /* 0: the collector has no memory */
  rwa_u64 bytes_or_errno; /* size of the memory; without memory, an errno */
  rwa_u64 window_id;
};

struct rocattach_exit_event {
  rwa_u32 wait_status; /* as in wait(2) */
  rwa_u32 pad;
};

struct rocattach_hold_end_event {
  rwa_u64 held_ns;
  rwa_u64 rounds;    /* of the hold's loop */
  rwa_u64 window_ns; /* time_ns of the window */
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
  rwa_u32 charged_uid; /* WINDOW, READY: the user to whose budgets it is charged */
  /* Selected by type, for WINDOW also by mode; an EXEC event has none. */
  union {
    struct rocattach_window_event window;
    struct rocattach_over_budget_event over_budget;
    struct rocattach_shared_event shared;
    struct rocattach_process_key follow; /* FOLLOW: the process whose window is open */
    struct rocattach_ready_event ready;
    struct rocattach_exit_event exit;
    struct rocattach_hold_end_event hold_end;
    rwa_u64 words[3]; /* all of it */
  };
  char comm[ROCATTACH_COMM_BYTES];
};
ROCATTACH_ASSERT(sizeof(struct rocattach_event) == 128);
ROCATTACH_ASSERT(__builtin_offsetof(struct rocattach_event, start_ns) == 32);
ROCATTACH_ASSERT(__builtin_offsetof(struct rocattach_event, cookie) == 56);
ROCATTACH_ASSERT(__builtin_offsetof(struct rocattach_event, words) == 88);
ROCATTACH_ASSERT(__builtin_offsetof(struct rocattach_event, comm) == 112);

/* Identifies a file and its contents, by numbers that only the kernel can interpret. */
struct rocattach_file_key {
  rwa_u64 inode;
  rwa_u64 version; /* its change time */
  rwa_u32 device;
  rwa_u32 pad;
};
ROCATTACH_ASSERT(sizeof(struct rocattach_file_key) == 24);

/* A file's kind, as the service has determined it; map `file_kinds`. */
enum rocattach_file_kind {
  ROCATTACH_FILE_UNKNOWN = 0,
  ROCATTACH_FILE_PLAIN = 1,      /* of no interest: omitted from layouts */
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
#define ROCATTACH_LAYOUT_UNKNOWN 1u   /* has files that are not classified yet */
#define ROCATTACH_LAYOUT_FULL 2u      /* more files than entries */
#define ROCATTACH_LAYOUT_COLLECTOR 4u /* a collector's shared memory is mapped */

#define ROCATTACH_LAYOUTS 256
#define ROCATTACH_LAYOUT_FILES 24
/* Prefix of the name of a collector's shared memory (a memfd). */
#define ROCATTACH_MEMORY_NAME "memfd:rocattach"

/* A held process, as far as an attach needs to know it; map `layouts`, which the
 * service maps into its memory. Written by the held thread. Contains the executable
 * mappings of files that are not plain, and the one around the window. */
struct rocattach_layout {
  rwa_u64 held_ns;   /* time_ns of the window whose thread is held; 0: no longer */
  rwa_u64 window_ns; /* the same, once all below is written; 0: being written */
  rwa_u32 tid;       /* the thread that is held */
  rwa_u32 flags;
  rwa_u32 count; /* number of files */
  rwa_u32 stack_access;
  rwa_u64 ip; /* address of the window */
  rwa_u64 sp;
  rwa_u64 stack_start; /* the mapping below sp; 0: none */
  rwa_u64 stack_end;
  struct rocattach_mapped_file files[ROCATTACH_LAYOUT_FILES];
};
ROCATTACH_ASSERT(sizeof(struct rocattach_mapped_file) == 56);
ROCATTACH_ASSERT(__builtin_offsetof(struct rocattach_layout, files) == 64);

/* The state of a process's window. FORGOTTEN, after the runtime was shut down, keeps
 * the process known, so that its end is still reported, while its next hsa_init opens a
 * window again. While a claim is open, other threads that enter hsa_init wait too: if
 * one of them overtook the first, the runtime would be loaded without the collector. */
enum rocattach_claim_state {
  ROCATTACH_CLAIM_OPEN = 0,     /* held; the collector is being started */
  ROCATTACH_CLAIM_RELEASED = 1, /* released: not wanted, failed, too late */
  ROCATTACH_CLAIM_FORGOTTEN = 2,
  ROCATTACH_CLAIM_READY = 3, /* the collector has reported */
};

/* struct rocattach_claim (below): a process's window; map `claims`, by process key. */
/* Bit in the cookie of a probe on functions of the runtime that a process calls after
 * hsa_init, for a late attach. */
#define ROCATTACH_COOKIE_LATE (1ull << 63)

struct rocattach_claim {
  rwa_u32 state; /* enum rocattach_claim_state; the service may set RELEASED */
  rwa_u32 tid;   /* the thread that opened the window */
  rwa_u64 opened_ns;
  rwa_u64 mm;     /* key of `memories` */
  rwa_u64 due_ns; /* budget of its windows, take_window() */
  rwa_u32 charged_uid;
  rwa_u32
      reported; /* the window that a collector has reported for, see take_report() */
};
ROCATTACH_ASSERT(sizeof(struct rocattach_claim) == 40);

/* The account of one user, as charged_user() determines it; map `accounts`. */
struct rocattach_account {
  rwa_u64 due_ns;      /* see take_window() */
  rwa_u64 notified_ns; /* when the service was last notified of a refusal */
  rwa_u64 refused;     /* number of refused windows */
  rwa_u32 processes;
  rwa_u32 pad;
};
ROCATTACH_ASSERT(sizeof(struct rocattach_account) == 32);

/* A process that is followed; key of the map `followed`. The time is that of
 * /proc/PID/stat, the only one that the service knows. */
struct rocattach_followed_key {
  rwa_u32 pid; /* tgid in the initial namespace */
  rwa_u32 pad;
  rwa_u64 start_ticks; /* start_boottime of its first thread, in clock ticks */
};
ROCATTACH_ASSERT(sizeof(struct rocattach_followed_key) == 16);

/* Nanoseconds per clock tick: USER_HZ is 100 on x86-64. */
#define ROCATTACH_CLOCK_TICK_NS 10000000ull

/* Bits that say how a process is followed; values of the map. */
#define ROCATTACH_FOLLOW_WINDOW 1u   /* it has windows */
#define ROCATTACH_FOLLOW_CHILDREN 2u /* the same for its children, and after an exec */

/* The global variable `settings` of the programs, which the service maps and writes. */
struct rocattach_settings {
  rwa_u32 hold;           /* 1: hold new windows */
  rwa_u32 paused;         /* 1: neither hold nor attach, only report */
  rwa_u32 service_tgid;   /* process whose ptrace stop ends a hold */
  rwa_u32 only_below;     /* only processes below this tgid; 0: all */
  rwa_u32 user_processes; /* maximum for one user, known at a time; 0: no limit */
  rwa_u32 only_uid_set;   /* 1: only processes of `only_uid` */
  rwa_u32 only_uid;
  rwa_u32 only_followed; /* 1: only processes of the map `followed` have windows */
  rwa_u64 limit_ns;      /* longest hold */
  /* One user's windows: one per interval, 0: no limit; and the allowed burst. */
  rwa_u64 window_interval_ns;
  rwa_u64 window_burst_ns;
  rwa_u64 only_cgroup; /* only processes in or below this control group; 0: all */
};
ROCATTACH_ASSERT(sizeof(struct rocattach_settings) == 64);

/* Counters; map `stats`, a per-CPU array of one. */
struct rocattach_bpf_stats {
  rwa_u64 hits;        /* probe entries, repeated ones included */
  rwa_u64 windows;     /* first entries */
  rwa_u64 lost;        /* events dropped because the ring was full */
  rwa_u64 claims_full; /* first entries dropped because the claims map was full */
  rwa_u64 held;
  rwa_u64 deadlines;
  rwa_u64 over_budget; /* windows refused because of a budget */
};
ROCATTACH_ASSERT(sizeof(struct rocattach_bpf_stats) == 56);

#endif /* ROCATTACH_BPF_WATCH_EVENTS_H_ */
