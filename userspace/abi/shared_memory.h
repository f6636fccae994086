/* The memory that a collector inside a target shares with the service.
 *
 * Plain C, fixed-width, the same on both sides. The collector creates it as one sealed
 * memfd (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), maps it and closes the descriptor,
 * so that the target's descriptor table stays as it was; the service maps it through
 * /proc/PID/map_files. The service trusts no byte of it: it copies a record out once,
 * then validates the copy.
 *
 *   offset 0                 control block, one page
 *   rings_offset             ring_count x ring_stride: header (256 bytes) + slots
 *   inflight_offset          inflight_count entries: dispatches captured, not yet timed
 *   dictionary_offset        append-only entries: agents, queues, code objects, ...
 *   plan_offset              struct rocattach_plan (plan.h), written by the service
 *
 * All times are CLOCK_BOOTTIME nanoseconds. "Atomic" fields are read and written with
 * __atomic builtins; `release`/`acquire` where the comment says so, else relaxed. */
#ifndef ROCATTACH_USERSPACE_ABI_SHARED_MEMORY_H_
#define ROCATTACH_USERSPACE_ABI_SHARED_MEMORY_H_

#include <stdint.h>

#include "userspace/abi/plan.h"
#include "userspace/abi/records.h"

#define ROCATTACH_SHM_MAGIC 0x314d485352415752ull /* "RWARSHM1" */
#define ROCATTACH_SHM_VERSION 11u
#define ROCATTACH_SHM_NAME "rocattach" /* memfd name: /memfd:rocattach in maps */
#define ROCATTACH_SHM_MAX_BYTES (256ull << 20)

#define ROCATTACH_RING_HEADER_BYTES 256u

/* Bits of recording_flags: the operations to record while `recording` is set, apart
 * from any session. */
#define ROCATTACH_RECORDING_DISPATCHES 1u
#define ROCATTACH_RECORDING_COPIES 2u
/* Forced capture modes of dispatches; without these the collector chooses. */
#define ROCATTACH_RECORDING_FORCE_DOORBELL 0x100u
#define ROCATTACH_RECORDING_FORCE_INTERCEPT 0x200u
/* The runtime may be open already: queues and kernels may exist of which the collector
 * was not told. */
#define ROCATTACH_RECORDING_LATE 0x400u

/* control.state, in chronological order. */
enum rocattach_collector_state {
  ROCATTACH_STATE_NONE = 0,
  ROCATTACH_STATE_LOADED = 1,   /* memory exists, the runtime has not called yet */
  ROCATTACH_STATE_ARMED = 2,    /* tables replaced; records when told to */
  ROCATTACH_STATE_REFUSED = 3,  /* gave up before touching a table; see reason */
  ROCATTACH_STATE_UNLOADED = 4, /* hsa_shut_down ran; the next hsa_init arms again */
  ROCATTACH_STATE_ENDED = 5, /* exit handlers ran; everything complete is published */
};

/* The reason why a collector refused (control.reason). */
enum rocattach_collector_reason {
  ROCATTACH_REASON_NONE = 0,
  ROCATTACH_REASON_UNKNOWN_TABLE = 1, /* the API table has a size we do not know */
  ROCATTACH_REASON_NO_MEMORY = 2,
  ROCATTACH_REASON_NO_THREAD = 3,
  ROCATTACH_REASON_HSA_ERROR = 4, /* an HSA call failed; text says which */
};

/* The interface of the runtime through which the collector works. */
enum rocattach_backend {
  ROCATTACH_BACKEND_NONE = 0,      /* config: the default; control: none yet */
  ROCATTACH_BACKEND_HSA_TOOLS = 1, /* OnLoad by HSA_TOOLS_LIB, any ROCm */
  ROCATTACH_BACKEND_SDK = 2,       /* rocprofiler-sdk by ROCP_TOOL_LIBRARIES */
  /* config only: the SDK through rocprofiler_register_attach, which another program
   * calls with the collector's path in a process that already runs; no variable is set.
   * In control this is SDK. */
  ROCATTACH_BACKEND_SDK_ATTACH = 3,
};

/* The path by which the collector got into the runtime's tables (control.entry). */
enum rocattach_entry_path {
  ROCATTACH_ENTRY_PATH_NONE = 0,       /* not yet */
  ROCATTACH_ENTRY_PATH_LIVE_TABLE = 1, /* stored there before hsa_init ran */
  ROCATTACH_ENTRY_PATH_TOOLS_LIB = 2,  /* OnLoad, by HSA_TOOLS_LIB */
  ROCATTACH_ENTRY_PATH_SDK = 3,        /* rocprofiler-sdk calls; nothing is replaced */
  ROCATTACH_ENTRY_PATH_LATE = 4,       /* stored there while the runtime was open */
};

/* The reason for using that backend (control.backend_reason). From NO_REGISTER on, the
 * SDK was requested but is not used. */
enum rocattach_backend_reason {
  ROCATTACH_BACKEND_REASON_NONE = 0,
  ROCATTACH_BACKEND_REASON_DEFAULT = 1,     /* the SDK was not requested */
  ROCATTACH_BACKEND_REASON_REQUESTED = 2,   /* the SDK was requested, and is used */
  ROCATTACH_BACKEND_REASON_NO_REGISTER = 3, /* the runtime never asked for its tools */
  ROCATTACH_BACKEND_REASON_SDK_VERSION = 4, /* older than 1.0: declined */
  ROCATTACH_BACKEND_REASON_SDK_INCOMPLETE = 5, /* a function is missing */
  ROCATTACH_BACKEND_REASON_SDK_ERROR = 6,      /* a call failed; backend_text */
};

/* The result of a plan (control.plan_error). */
enum rocattach_plan_error {
  ROCATTACH_PLAN_ERROR_NONE = 0,
  ROCATTACH_PLAN_ERROR_MALFORMED = 1,   /* magic, version, size or an index */
  ROCATTACH_PLAN_ERROR_UNSUPPORTED = 2, /* this backend cannot record such a kind */
  ROCATTACH_PLAN_ERROR_NO_COUNTER = 3,  /* a GPU of the plan has no such counter */
  ROCATTACH_PLAN_ERROR_HW_LIMIT = 4,    /* more counters than one pass can hold */
  ROCATTACH_PLAN_ERROR_CONFLICT = 5,    /* another tool counts in this process */
  ROCATTACH_PLAN_ERROR_SDK = 6,         /* another status of the SDK; the text has it */
  ROCATTACH_PLAN_ERROR_NO_MEMORY = 7,
  ROCATTACH_PLAN_ERROR_ENDED = 8, /* the process exits, or the SDK has finalized */
};

/* The stub passes this to rocattach_collector_start. Strings are NUL-terminated. */
struct rocattach_collector_config {
  uint32_t size;    /* sizeof(struct), checked */
  uint32_t version; /* ROCATTACH_SHM_VERSION, checked */
  uint64_t recording_flags;
  uint32_t recording;  /* 1: record from the start; 0: armed but idle */
  uint32_t ring_count; /* per-thread rings, the last one is shared by late threads */
  uint32_t ring_slots; /* slots a ring, a power of two */
  uint32_t inflight_count;
  uint32_t dictionary_bytes;
  /* Longest time that OnLoad waits for the service to map the memory, so that even a
   * process that lives for a millisecond is read in full. */
  uint32_t map_wait_msec;
  uint64_t window_id; /* the service's number of this attach window, echoed */
  /* enum rocattach_backend. SDK only after the service has checked that the runtime has
   * rocprofiler-register, that the SDK can be found and that KFD's topology is visible:
   * otherwise rocprofiler-register aborts the process. */
  uint32_t backend;
  /* SDK: the kinds that plans may request later, ROCATTACH_PLAN_RECORD_*; 0: all. The
   * SDK requires everything to be configured at load, and API tracing costs each call a
   * little even while nothing is traced. */
  uint32_t record_kinds;
  /* Address of hsa_init in the runtime that this window belongs to: a process may have
   * several copies. 0: not known; the collector is then loaded by HSA_TOOLS_LIB. */
  uint64_t window_address;
  char collector_path[256]; /* the path under which the collector was opened */
  /* Offset to add to the process's CLOCK_BOOTTIME to get the service's: not 0 in a time
   * namespace. All times that the collector writes and compares are the service's. */
  int64_t clock_offset_ns;
};

/* One page at offset 0. */
struct rocattach_control {
  /* Written once by the collector before rocattach_collector_ready(). */
  uint64_t magic;
  uint32_t version;
  uint32_t control_bytes;
  uint64_t total_bytes;
  uint64_t rings_offset;
  uint64_t ring_stride;
  uint32_t ring_count;
  uint32_t ring_slots;
  uint64_t inflight_offset;
  uint32_t inflight_count;
  uint32_t inflight_bytes; /* sizeof(struct rocattach_inflight) */
  uint64_t dictionary_offset;
  uint64_t dictionary_bytes;
  uint64_t window_id;
  int32_t pid; /* in the target's own pid namespace */
  /* Atomic, release: rings below this number have had an owner, the others are
   * untouched. Never decreases. A reader that respects it touches no unused page. */
  uint32_t rings_used;
  uint64_t start_ns; /* when rocattach_collector_start ran */

  /* Collector -> service, atomic. */
  uint32_t state;    /* enum rocattach_collector_state, release */
  uint32_t reason;   /* enum rocattach_collector_reason */
  uint64_t armed_ns; /* when OnLoad had replaced the tables */
  uint64_t ended_ns;
  uint64_t dictionary_used;                   /* bytes committed, release */
  uint64_t dictionary_dropped;                /* entries that did not fit */
  uint64_t core_table_bytes, amd_table_bytes; /* as stated by the runtime */
  uint32_t runtime_version_major, runtime_version_minor;
  uint32_t capture_mode; /* 1 doorbell, 2 intercept queues */
  uint32_t pad2;
  /* Accounts, from the start of the process; a dispatch is seen once, then either
   * becomes a record in a ring (produced there) or is counted here as lost. These are
   * sums of the rings' own counters, refreshed every few milliseconds and at the end of
   * the process; a reader that needs exact sums at any time, even after a SIGKILL, sums
   * struct rocattach_ring itself. */
  uint64_t dispatches_seen;
  uint64_t copies_seen;
  uint64_t dispatches_untimed; /* published, but without times */
  uint64_t packets_unseen;     /* consumed by the GPU without being captured */
  uint64_t other_dropped;      /* lost before a ring was chosen */
  uint64_t hook_ns_total;      /* own cost, sampled: see docs/benchmarks.md */
  char text[160];              /* reason of a refusal, NUL-terminated */

  /* Place to which the service writes the plan; set once, like the geometry above. */
  uint64_t plan_offset;
  uint64_t plan_bytes; /* sizeof(struct rocattach_plan) */

  /* Collector -> service, atomic: the capabilities of the backend. `backend` is stored
   * last, release; the others, and the agents and functions in the dictionary, are
   * valid from then on. */
  uint32_t backend;        /* enum rocattach_backend; NONE until the runtime called */
  uint32_t backend_reason; /* enum rocattach_backend_reason */
  uint32_t record_kinds;   /* ROCATTACH_PLAN_RECORD_*: what a plan may request */
  uint32_t api_domains;    /* bits 1 << enum rocattach_plan_api */
  uint32_t sdk_version;    /* 10000 * major + 100 * minor + patch; 0: none */
  /* 1: contexts of the SDK run only between rocprofiler_register_attach and _detach,
   * which an attacher has to call. */
  uint32_t by_attacher;
  char backend_text[160]; /* why kinds are missing, for users; NUL-terminated */

  /* Collector -> service: the answer to a plan. The other three are written before
   * plan_acked (release). plan_acked == generation and plan_error == NONE: the plan is
   * active, and everything older has been published except for dispatches in flight
   * (see ROCATTACH_DISPATCH_PLAN_TAG). plan_acked == generation and an error: nothing
   * of it is recorded. Generation 0, never written, needs no answer. */
  uint64_t plan_acked;
  uint32_t plan_error;     /* enum rocattach_plan_error */
  int32_t plan_error_code; /* status of the SDK (sdk/abi_base.h), or errno; 0 none */
  /* The counter that a GPU lacks (NO_COUNTER): 1 + its index in
   * rocattach_plan.counter_name. 0: another reason. */
  uint32_t plan_error_counter;
  char plan_error_text[252]; /* names the counters or kinds; NUL-terminated */

  /* Collector -> service: the collector's way in, and the other tools in the process.
   * LIVE_TABLE is written before rocattach_collector_ready(): our functions are in the
   * tables, and hsa_init calls them. All of it is valid once the state is ARMED. */
  uint32_t entry; /* enum rocattach_entry_path */
  /* Last status of an hsa_init that failed before any succeeded; 0: none failed. */
  uint32_t init_status;
  char entry_text[160]; /* TOOLS_LIB: why not the live table; NUL-terminated */
  /* Path of the library that brings another profiler into the process, empty if none
   * was seen; NUL-terminated. */
  char other_tool[256];

  /* Address, in the process, of a 32-bit word with the state (enum
   * rocattach_collector_state) in private memory: in a forked child it is the parent's
   * state at the fork, while this block is still the parent's. 0: none. */
  uint64_t state_address;

  /* Service -> collector, atomic. On a cache line of their own. */
  uint32_t service_mapped __attribute__((aligned(128))); /* futex: 1 once mapped */
  uint32_t command;   /* futex: +1 with each change below, release */
  uint32_t recording; /* 1 start, 0 stop */
  /* Selects the ones to record among the dispatches that only `recording` requests:
   * sampling.h. 0: all. Takes effect with the next dispatch, without a command. */
  uint32_t sampling;
  uint64_t recording_flags;
  uint64_t service_heartbeat_ns; /* last time the service drained; 0 never */
  uint32_t takeovers; /* +1 by each service that takes over, before its first command */
  uint32_t reserved;
  /* A plan is written to plan_offset as described in plan.h, then command + 1 and a
   * wake. It is independent of `recording`: a process that records nothing else
   * executes its plan. A plan with record_kinds 0 ends the session. To have a plan
   * active before the first dispatch, the service writes it before it sets
   * service_mapped. */
};

/* One per-thread ring. Single producer, single consumer; a slot is free when
 * head - tail < ring_slots. The producer never waits: a full ring counts a drop. */
struct rocattach_ring {
  uint64_t head __attribute__((aligned(64))); /* producer, release: slots published */
  uint64_t dropped;   /* producer: records of any kind without a free slot */
  uint32_t owner_tid; /* 0: free */
  uint32_t lock;      /* only the shared last ring uses it */
  /* Accounts of the ring's producers, exact at any time: dispatches_seen = dispatch
   * records in all heads + in flight + dispatches_dropped + sampled_out, except for the
   * operation in progress. An operation is first counted as seen, then leaves the
   * in-flight table, and is counted as dropped last. */
  uint64_t dispatches_seen;
  uint64_t copies_seen;
  uint64_t dispatches_untimed;
  uint64_t packets_unseen;
  int64_t inflight; /* captured minus published here; the sum of all rings counts */
  uint64_t tail __attribute__((aligned(64))); /* consumer, release: slots consumed */
  /* More accounts of the producers, as above. `dropped` counts everything for which
   * there was no room, clock relations included, each once however many slots it needs;
   * these fields count each kind. */
  uint64_t counted_seen __attribute__((aligned(64))); /* dispatches with counters */
  uint64_t counted_dropped; /* … dropped with their values */
  uint64_t values_dropped;  /* … whose values never arrived, or were invalid:
                             * the dispatch is recorded without COUNTED */
  uint64_t samples_seen;
  uint64_t samples_dropped;
  uint64_t api_calls_seen;
  uint64_t api_calls_dropped;
  uint64_t dispatches_dropped; /* dispatches without a free slot */
  uint64_t copies_dropped;     /* copies without a free slot */
  uint64_t memory_seen;        /* records of memory that was allocated or freed */
  uint64_t memory_dropped;
  uint64_t sampled_out; /* dispatches seen, and not recorded because of `sampling` */
  uint64_t reserved[4];
};

ROCATTACH_ASSERT_SIZE(rocattach_collector_config, 64 + 256 + 8);
ROCATTACH_ASSERT_SIZE(rocattach_ring, ROCATTACH_RING_HEADER_BYTES);

/* Exported by the collector (userspace/collector/): */
#define ROCATTACH_COLLECTOR_START "rocattach_collector_start"
/* int rocattach_collector_start(const struct rocattach_collector_config*):
 * called by the stub on the held thread. 0, or an errno value with nothing changed. */
#define ROCATTACH_COLLECTOR_READY "rocattach_collector_ready"
/* void rocattach_collector_ready(const void* memory, uint64_t bytes, uint64_t
 * window_id): does nothing; the service has a uprobe on it, by which it learns of the
 * memory. Without memory (null) the collector could not be set up, and `bytes` is a
 * failure (setup_failure.h). */

#define ROCATTACH_COLLECTOR_UNLOADED "rocattach_collector_unloaded"
/* void rocattach_collector_unloaded(void): does nothing; called (noinline, exported) at
 * the end of OnUnload. The service's uprobe on it makes the kernel side open a window
 * again at the process's next hsa_init, where the stub calls the start function again.
 */

#endif /* ROCATTACH_USERSPACE_ABI_SHARED_MEMORY_H_ */
