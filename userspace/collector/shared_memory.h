/* The memory that a collector inside a target shares with the service.
 *
 * Plain C, fixed-width, the same on both sides. The collector creates it as one sealed
 * memfd (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), maps it and closes the descriptor,
 * so that the target's descriptor table stays as it was; the service maps it through
 * /proc/PID/map_files. The service treats every byte in here as hostile: it copies a
 * record out once, then validates the copy.
 *
 *   offset 0                 control block, one page
 *   rings_offset             ring_count x ring_stride: header (256 bytes) + slots
 *   inflight_offset          inflight_count entries: dispatches captured, not yet timed
 *   dictionary_offset        append-only entries: agents, queues, code objects,
 * kernels, API functions plan_offset              struct rocattach_plan (plan_abi.h),
 * written by the service
 *
 * All times are CLOCK_BOOTTIME nanoseconds. "Atomic" fields are read and written with
 * __atomic builtins; `release`/`acquire` where the comment says so, else relaxed.
 */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SHARED_MEMORY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SHARED_MEMORY_H_

#include <stdint.h>

#include "userspace/collector/plan_abi.h"

#define ROCATTACH_SHM_MAGIC 0x314d485352415752ull /* "RWARSHM1" */
#define ROCATTACH_SHM_VERSION 2u
#define ROCATTACH_SHM_NAME "rocattach" /* memfd name: /memfd:rocattach in maps */
#define ROCATTACH_SHM_MAX_BYTES (256ull << 20)

#define ROCATTACH_RING_HEADER_BYTES 256u
#define ROCATTACH_SLOT_BYTES 96u

/* What to record while `recording` is set, apart from any session: bits of plan_flags.
 */
#define ROCATTACH_PLAN_DISPATCHES 1u
#define ROCATTACH_PLAN_COPIES 2u
#define ROCATTACH_PLAN_ALLOCATIONS 4u
#define ROCATTACH_PLAN_HSA_API 8u
/* Which way dispatches are captured; 0 leaves the choice to the collector. */
#define ROCATTACH_PLAN_FORCE_DOORBELL 0x100u
#define ROCATTACH_PLAN_FORCE_INTERCEPT 0x200u

/* control.state, in order of life. */
enum rocattach_collector_state {
  ROCATTACH_STATE_NONE = 0,
  ROCATTACH_STATE_LOADED = 1,   /* memory exists, the runtime has not called yet */
  ROCATTACH_STATE_ARMED = 2,    /* tables replaced; records when told to */
  ROCATTACH_STATE_REFUSED = 3,  /* gave up before touching a table; see reason */
  ROCATTACH_STATE_UNLOADED = 4, /* hsa_shut_down ran; the next hsa_init arms again */
  ROCATTACH_STATE_ENDED = 5, /* exit handlers ran; everything complete is published */
};

/* Why a collector refused (control.reason). */
enum rocattach_collector_reason {
  ROCATTACH_REASON_NONE = 0,
  ROCATTACH_REASON_UNKNOWN_TABLE = 1, /* the API table has a size we do not know */
  ROCATTACH_REASON_NO_MEMORY = 2,
  ROCATTACH_REASON_NO_THREAD = 3,
  ROCATTACH_REASON_HSA_ERROR = 4, /* an HSA call failed; text says which */
};

/* Through which interface of the runtime the collector works. */
enum rocattach_backend {
  ROCATTACH_BACKEND_NONE = 0,      /* config: the default; control: none yet */
  ROCATTACH_BACKEND_HSA_TOOLS = 1, /* OnLoad by HSA_TOOLS_LIB, any ROCm */
  ROCATTACH_BACKEND_SDK = 2,       /* rocprofiler-sdk by ROCP_TOOL_LIBRARIES */
  /* config only: the SDK by rocprofiler_register_attach, which somebody calls with the
   * collector's path in a process that runs already; no variable is set. In control
   * this is SDK. */
  ROCATTACH_BACKEND_SDK_ATTACH = 3,
};

/* Why that one is in force (control.backend_reason). With all from NO_REGISTER on the
 * SDK was asked for and something else came of it. */
enum rocattach_backend_reason {
  ROCATTACH_BACKEND_REASON_NONE = 0,
  ROCATTACH_BACKEND_REASON_DEFAULT = 1,     /* nobody asked for the SDK */
  ROCATTACH_BACKEND_REASON_REQUESTED = 2,   /* the SDK was asked for, and is in force */
  ROCATTACH_BACKEND_REASON_NO_REGISTER = 3, /* the runtime never asked for its tools */
  ROCATTACH_BACKEND_REASON_SDK_VERSION = 4, /* older than 1.0: declined */
  ROCATTACH_BACKEND_REASON_SDK_INCOMPLETE = 5, /* a function is missing */
  ROCATTACH_BACKEND_REASON_SDK_ERROR = 6,      /* a call failed; backend_text */
};

/* What became of a plan (control.plan_error). */
enum rocattach_plan_error {
  ROCATTACH_PLAN_ERROR_NONE = 0,
  ROCATTACH_PLAN_ERROR_MALFORMED = 1,   /* magic, version, size or an index */
  ROCATTACH_PLAN_ERROR_UNSUPPORTED = 2, /* this back end cannot record such a kind */
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
  uint64_t plan_flags;
  uint32_t recording;  /* 1: record from the start; 0: armed but idle */
  uint32_t ring_count; /* per-thread rings, the last one is shared by late threads */
  uint32_t ring_slots; /* slots a ring, a power of two */
  uint32_t inflight_count;
  uint32_t dictionary_bytes;
  /* Longest time that OnLoad waits for the service to map the memory, so that even a
   * process that lives for a millisecond is read in full. */
  uint32_t map_wait_msec;
  uint64_t window_id; /* the service's number of this attach window, echoed */
  /* enum rocattach_backend. SDK only after a look from outside that the runtime has
   * rocprofiler-register, that the SDK can be found and that KFD's topology is there:
   * else rocprofiler-register aborts the process. */
  uint32_t backend;
  /* SDK: which kinds plans may ask for later, ROCATTACH_PLAN_RECORD_*; 0: all. The SDK
   * wants everything configured at load, and API tracing costs each call a little even
   * while nothing is traced. */
  uint32_t record_kinds;
  char library_path[256]; /* the path under which the collector was opened */
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
  uint32_t pad0;
  uint64_t start_ns; /* when rocattach_collector_start ran */

  /* Collector -> service, atomic. */
  uint32_t state;    /* enum rocattach_collector_state, release */
  uint32_t reason;   /* enum rocattach_collector_reason */
  uint64_t armed_ns; /* when OnLoad had replaced the tables */
  uint64_t ended_ns;
  uint64_t dictionary_used;                   /* bytes committed, release */
  uint64_t dictionary_dropped;                /* entries that did not fit */
  uint64_t core_table_bytes, amd_table_bytes; /* the runtime's own claim */
  uint32_t runtime_version_major, runtime_version_minor;
  uint32_t capture_mode;    /* 1 doorbell, 2 intercept queues */
  uint32_t recording_acked; /* copy of `recording` once it is in force */
  /* Accounts, from the start of the process; a dispatch is seen once, then either
   * becomes a record in a ring (produced there) or is counted here as lost. These are
   * sums of the rings' own counters, refreshed every few milliseconds and at the end of
   * the process; a reader that needs them exact at any instant, SIGKILL included, adds
   * up struct rocattach_ring itself. */
  uint64_t dispatches_seen;
  uint64_t copies_seen;
  uint64_t dispatches_untimed; /* published, but their times could not be had */
  uint64_t packets_unseen;     /* consumed by the GPU behind our back */
  uint64_t inflight_now;       /* captured, not yet published */
  uint64_t other_dropped;      /* lost before a ring was chosen */
  uint64_t hook_ns_total;      /* own cost, sampled: see docs/benchmarks.md */
  char text[160];              /* human reason of a refusal, NUL-terminated */

  /* Where the service writes the plan: written once, as the geometry above. */
  uint64_t plan_offset;
  uint64_t plan_bytes; /* sizeof(struct rocattach_plan) */

  /* Collector -> service, atomic: what the back end can do. `backend` is stored last,
   * release; the others hold from then on. */
  uint32_t backend;        /* enum rocattach_backend; NONE until the runtime called */
  uint32_t backend_reason; /* enum rocattach_backend_reason */
  uint32_t record_kinds;   /* ROCATTACH_PLAN_RECORD_*: what a plan may ask for */
  uint32_t api_domains;    /* bits 1 << enum rocattach_plan_api */
  uint32_t sdk_version;    /* 10000 * major + 100 * minor + patch; 0: none */
  uint32_t pad2;
  char backend_text[160]; /* why kinds are missing, for people; NUL-terminated */

  /* Collector -> service: the answer to a plan. The other three are written before
   * plan_acked (release). plan_acked == generation and plan_error == NONE: the plan is
   * in force, and everything older has been published save for dispatches that were
   * under way (see ROCATTACH_DISPATCH_PLAN_TAG). plan_acked == generation and an error:
   * nothing of it is recorded. Generation 0, never written, needs no answer. */
  uint64_t plan_acked;
  uint32_t plan_error;       /* enum rocattach_plan_error */
  int32_t plan_error_code;   /* status of the SDK (sdk_abi_base.h), or errno; 0 none */
  char plan_error_text[256]; /* names the counters or kinds; NUL-terminated */

  /* Service -> collector, atomic. On a cache line of their own. */
  uint32_t service_mapped __attribute__((aligned(128))); /* futex: 1 once mapped */
  uint32_t command;   /* futex: +1 with each change below, release */
  uint32_t recording; /* 1 start, 0 stop */
  uint32_t pad1;
  uint64_t plan_flags;
  uint64_t service_beat_ns; /* last time the service drained; 0 never */
  /* A plan is written to plan_offset as plan_abi.h says, then command + 1 and a wake.
   * It is independent of `recording`: a process that records nothing else carries out
   * its plan. A plan with record_kinds 0 ends the session. A service that wants a plan
   * in force before the first dispatch writes it before it sets service_mapped. */
};

/* One per-thread ring. Single producer, single consumer; a slot is free when
 * head - tail < ring_slots. The producer never waits: a full ring counts a drop. */
struct rocattach_ring {
  uint64_t head __attribute__((aligned(64))); /* producer, release: slots published */
  uint64_t dropped;                           /* producer: records that found no slot */
  uint32_t owner_tid;                         /* 0: free */
  uint32_t lock;                              /* only the shared last ring uses it */
  /* Accounts of the ring's producers, exact at any instant: dispatches_seen = dispatch
   * records in all heads + in flight + dropped, save for the operation under way. */
  uint64_t dispatches_seen;
  uint64_t copies_seen;
  uint64_t dispatches_untimed;
  uint64_t packets_unseen;
  int64_t inflight; /* captured minus published here; the sum of all rings counts */
  uint64_t tail __attribute__((aligned(64))); /* consumer, release: slots consumed */
  /* More accounts of the producers, as those above. `dropped` counts operations that
   * found no room, each once however many slots it needs; these say what was in them.
   */
  uint64_t counted_seen __attribute__((aligned(64))); /* dispatches with counters */
  uint64_t counted_dropped; /* … whose dispatch and values found no room */
  uint64_t values_dropped;  /* … whose values never came, or made no sense: the
                             * dispatch is on record without COUNTED */
  uint64_t samples_seen;
  uint64_t samples_dropped;
  uint64_t api_calls_seen;
  uint64_t api_calls_dropped;
  uint64_t reserved[9];
};

enum rocattach_record_kind {
  ROCATTACH_RECORD_NONE = 0,
  ROCATTACH_RECORD_DISPATCH = 1,
  ROCATTACH_RECORD_COPY = 2,
  ROCATTACH_RECORD_ALLOCATION = 3,
  ROCATTACH_RECORD_API = 4, /* a call of an API function */
  ROCATTACH_RECORD_CLOCK = 5,
  ROCATTACH_RECORD_VALUES = 6, /* follow their dispatch or sample */
  ROCATTACH_RECORD_SAMPLE = 7, /* counters of a GPU over a span of time */
};

/* Bits of rocattach_dispatch.flags. */
#define ROCATTACH_DISPATCH_UNTIMED 1u /* start and end are 0 */
/* times come from the application's signal: */
#define ROCATTACH_DISPATCH_APP_SIGNAL 2u
#define ROCATTACH_DISPATCH_UNFINISHED 4u /* never seen to complete */
#define ROCATTACH_DISPATCH_COUNTED 8u    /* its values follow in this ring */
/* Who wants it, one or more. Without any of them: `recording` does. */
#define ROCATTACH_DISPATCH_BASELINE                                                   \
  16u                                   /* `recording`, and plan_flags has DISPATCHES \
                                         */
#define ROCATTACH_DISPATCH_SELECTED 32u /* the plan's selection of dispatches */
#define ROCATTACH_DISPATCH_FOR_COUNTERS 64u /* the plan's selection of counters */
/* The target could not decide (enum rocattach_selected): the service must. */
#define ROCATTACH_DISPATCH_SELECTED_UNDECIDED 128u
#define ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED 256u
/* The upper 7 bits name the plan that decided, so that a dispatch that outlives a
 * session is not taken for one of the next: compare with ROCATTACH_PLAN_TAG. Also a
 * copy's. */
#define ROCATTACH_DISPATCH_PLAN_TAG(flags) ((uint32_t)(flags) >> 9 & 0x7fu)
#define ROCATTACH_PLAN_TAG(generation) ((uint32_t)((generation) / 2) & 0x7fu)

/* A kernel dispatch; 96 bytes. */
struct rocattach_dispatch {
  uint16_t kind; /* ROCATTACH_RECORD_DISPATCH */
  uint16_t flags;
  uint32_t kernel_id;      /* dictionary; 0 unknown */
  uint64_t correlation_id; /* counts all operations of this process from 1 */
  uint64_t enqueue_ns;
  uint64_t start_ns, end_ns; /* on the GPU, converted */
  uint32_t queue_id;         /* dictionary */
  uint32_t tid;              /* thread that rang the doorbell, its own namespace */
  uint32_t grid_x, grid_y, grid_z; /* work-items */
  uint16_t workgroup_x, workgroup_y, workgroup_z;
  uint16_t agent_id;      /* dictionary */
  uint32_t lds_bytes;     /* packet.group_segment_size */
  uint32_t scratch_bytes; /* packet.private_segment_size, per work-item */
  /* Of its kernel since the plan came into force, from 1; 0: no plan decided. */
  uint32_t iteration;
  uint64_t packet_index; /* in its queue; the SDK does not tell: 0 */
  uint64_t dispatch_id;  /* counts the dispatches of this process from 1; 0 unknown */
};

/* A memory copy; 96 bytes. */
struct rocattach_copy {
  uint16_t kind;                       /* ROCATTACH_RECORD_COPY */
  uint16_t flags;                      /* as a dispatch's */
  uint16_t src_agent_id, dst_agent_id; /* dictionary; 0 unknown (host pointer) */
  uint64_t correlation_id;
  uint64_t enqueue_ns;
  uint64_t start_ns, end_ns;
  uint64_t bytes;
  uint32_t tid;
  uint16_t direction; /* enum rocattach_copy_direction */
  uint16_t engine;    /* enum rocattach_copy_engine */
  uint64_t src_address, dst_address;
  uint64_t reserved[3];
};

enum rocattach_copy_direction {
  ROCATTACH_COPY_UNKNOWN = 0,
  ROCATTACH_COPY_HOST_TO_HOST = 1,
  ROCATTACH_COPY_HOST_TO_DEVICE = 2,
  ROCATTACH_COPY_DEVICE_TO_HOST = 3,
  ROCATTACH_COPY_DEVICE_TO_DEVICE = 4,
};

enum rocattach_copy_engine {
  ROCATTACH_ENGINE_UNKNOWN = 0,
  ROCATTACH_ENGINE_ASYNC = 1, /* hsa_amd_memory_async_copy* */
  ROCATTACH_ENGINE_SYNC = 2,  /* hsa_memory_copy: host times around the call */
};

/* Bits of rocattach_copy.flags beside UNTIMED and UNFINISHED: who wants it. The plan's
 * tag is where a dispatch has it. */
#define ROCATTACH_COPY_BASELINE ROCATTACH_DISPATCH_BASELINE
#define ROCATTACH_COPY_SELECTED ROCATTACH_DISPATCH_SELECTED

/* A hardware counter of one dispatch or sample, reduced over its instances: shader
 * engines, channels and so on. */
struct rocattach_counter_value {
  uint16_t counter; /* index of rocattach_plan.counter_name */
  uint16_t pad;
  uint32_t instances; /* how many; at least 1 */
  double sum, minimum, maximum;
};

/* Counter values; 96 bytes. A dispatch with COUNTED, or a sample, and its values are
 * published at once, in this order, in adjacent slots of one ring, or not at all. */
#define ROCATTACH_VALUES_PER_SLOT 2u
struct rocattach_values {
  uint16_t kind;            /* ROCATTACH_RECORD_VALUES */
  uint16_t slots;           /* of this dispatch or sample, without its own */
  uint16_t slot;            /* this one, from 0 */
  uint16_t count;           /* used entries of value[], 1 or 2 */
  uint64_t correlation_id;  /* the dispatch's, or the sample's sample_id */
  uint64_t plan_generation; /* which plan counter indices are of */
  uint16_t pass;            /* of the GPU's architecture in the plan, from 0 */
  uint16_t agent_id;        /* dictionary */
  uint32_t of;              /* enum rocattach_record_kind: DISPATCH or SAMPLE */
  struct rocattach_counter_value value[ROCATTACH_VALUES_PER_SLOT];
};

/* What a GPU's counters did between two moments; 96 bytes; its values follow. The sums
 * are of this span alone, so those of a session's samples may be added up. */
struct rocattach_sample {
  uint16_t kind; /* ROCATTACH_RECORD_SAMPLE */
  uint16_t flags;
  uint16_t agent_id;  /* dictionary */
  uint16_t pass;      /* of the architecture's sampler passes, from 0 */
  uint64_t sample_id; /* counts the samples of this process from 1 */
  uint64_t plan_generation;
  uint64_t begin_ns, end_ns;
  uint16_t values; /* how many follow */
  uint16_t slots;  /* in how many slots */
  uint32_t pad;
  uint64_t reserved[6];
};

/* An API call; 96 bytes. */
#define ROCATTACH_API_TEXT_BYTES 40u
#define ROCATTACH_API_TEXT_CUT 1u /* flags: the message is longer */
struct rocattach_api_call {
  uint16_t kind; /* ROCATTACH_RECORD_API */
  uint16_t flags;
  uint16_t domain;   /* enum rocattach_plan_api */
  uint16_t function; /* of the domain; its name is a dictionary entry */
  uint32_t tid;
  uint32_t plan_tag;       /* ROCATTACH_PLAN_TAG of the plan that selected it */
  uint64_t correlation_id; /* as the SDK counts calls */
  uint64_t begin_ns, end_ns;
  uint64_t ancestor_id; /* correlation of the call that made this one; 0 none */
  uint64_t reserved;
  /* A marker's message, NUL-terminated; else empty. */
  char text[ROCATTACH_API_TEXT_BYTES];
};

/* One relation of a GPU's clock to ours; 96 bytes. */
struct rocattach_clock {
  uint16_t kind; /* ROCATTACH_RECORD_CLOCK */
  uint16_t agent_id;
  uint32_t pad;
  uint64_t gpu_ticks;
  uint64_t boottime_ns;
  uint64_t ticks_per_second; /* HSA's system timestamp frequency of the agent's clock */
  uint64_t reserved[8];
};

/* Captured, but its end is not known yet. Lives in shared memory so that a SIGKILL
 * loses only the times and never the fact. A record without what follows from its end:
 * thousands may be in flight, so every byte counts (inflight.h has the way back).
 * A process that is killed while it publishes may leave a record both here and in a
 * ring: the correlation id tells. */
struct rocattach_inflight_dispatch {
  uint32_t kernel_id;
  uint32_t queue_id;
  uint32_t grid_x, grid_y, grid_z;
  uint16_t workgroup_x, workgroup_y, workgroup_z;
  uint16_t agent_id;
  uint32_t lds_bytes;
  uint32_t scratch_bytes;
  uint32_t iteration;
  uint64_t packet_index;
  uint64_t dispatch_id;
};

struct rocattach_inflight_copy {
  uint64_t bytes;
  uint64_t src_address, dst_address;
  uint16_t src_agent_id, dst_agent_id;
  uint16_t direction; /* enum rocattach_copy_direction */
  uint16_t engine;    /* enum rocattach_copy_engine */
  uint64_t reserved[3];
};

struct rocattach_inflight {
  uint16_t kind; /* enum rocattach_record_kind (release), 0 free; collector clears it */
  uint16_t flags; /* as the record's */
  uint32_t tid;
  uint64_t correlation_id;
  uint64_t enqueue_ns;
  union {
    struct rocattach_inflight_dispatch dispatch;
    struct rocattach_inflight_copy copy;
  } u;
};

/* Dictionary: entries follow each other, 8-byte aligned, from dictionary_offset.
 * An entry is complete once dictionary_used covers it; it never changes after that. */
enum rocattach_entry_kind {
  ROCATTACH_ENTRY_AGENT = 1,
  ROCATTACH_ENTRY_QUEUE = 2,
  ROCATTACH_ENTRY_KERNEL = 3,
  ROCATTACH_ENTRY_CODE_OBJECT = 4,
  ROCATTACH_ENTRY_FUNCTION = 5,
};

struct rocattach_entry {
  uint32_t bytes;      /* of the entry, header and padding included */
  uint16_t kind;       /* enum rocattach_entry_kind */
  uint16_t text_bytes; /* length of the text behind the fixed part, no NUL */
  uint32_t id;         /* per kind, from 1 */
  uint32_t pad;
};

struct rocattach_agent_entry {
  struct rocattach_entry entry; /* text: "gfx90a\0product name" */
  uint32_t type;                /* 1 CPU, 2 GPU */
  uint32_t node_id;             /* KFD node */
  uint32_t compute_units, simds_per_cu, wavefront_size, max_waves_per_cu;
  uint32_t max_clock_mhz, shader_engines;
  uint64_t local_memory_bytes;
  uint64_t pci_bdf; /* domain << 16 | bus << 8 | device << 3 | function */
  char uuid[24];    /* "GPU-xxxxxxxxxxxxxxxx", NUL-terminated */
};

struct rocattach_queue_entry {
  struct rocattach_entry entry; /* no text */
  uint32_t agent_id;
  uint32_t packets; /* ring size */
  uint64_t hsa_queue_id;
  uint64_t created_ns;
};

struct rocattach_kernel_entry {
  struct rocattach_entry entry; /* text: the symbol name without ".kd" */
  uint32_t agent_id;
  uint32_t code_object_id;
  uint64_t kernel_object;
  uint32_t kernarg_bytes, kernarg_alignment;
  uint32_t lds_bytes;     /* static group segment */
  uint32_t scratch_bytes; /* static private segment, per work-item */
  uint16_t sgprs, arch_vgprs, accum_vgprs,
      pad; /* from the kernel descriptor; 0 unknown */
};

struct rocattach_code_object_entry {
  struct rocattach_entry entry; /* text: URI of the code object */
  uint32_t agent_id;
  uint32_t pad;
  uint64_t load_base, load_bytes;
  int64_t load_delta;
};

/* An API function. All that the back end can trace are there before `backend` is
 * stored, so that the service can write a plan that names functions. */
struct rocattach_function_entry {
  struct rocattach_entry entry; /* text: "hipLaunchKernel" */
  uint16_t domain;              /* enum rocattach_plan_api */
  uint16_t function; /* its bit of rocattach_plan_api_functions.functions; one number
                      * per domain over all of its tables: 256 * table + entry; in HIP
                      * the compiler's table begins at 768 */
  uint32_t pad;
};

#ifdef __cplusplus
#define ROCATTACH_ASSERT_SIZE(type, bytes) \
  static_assert(sizeof(struct type) == (bytes), #type " has a fixed size")
#else
#define ROCATTACH_ASSERT_SIZE(type, bytes) \
  _Static_assert(sizeof(struct type) == (bytes), #type " has a fixed size")
#endif
ROCATTACH_ASSERT_SIZE(rocattach_collector_config, 56 + 256);
ROCATTACH_ASSERT_SIZE(rocattach_dispatch, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_copy, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_clock, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_counter_value, 32);
ROCATTACH_ASSERT_SIZE(rocattach_values, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_sample, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_api_call, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_ring, ROCATTACH_RING_HEADER_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_inflight, 80);

/* Exported by the collector (userspace/collector/): */
#define ROCATTACH_COLLECTOR_START "rocattach_collector_start"
/* int rocattach_collector_start(const struct rocattach_collector_config*):
 * called by the stub on the held thread. 0, or an errno value with nothing changed. */
#define ROCATTACH_COLLECTOR_READY "rocattach_collector_ready"
/* void rocattach_collector_ready(const void* memory, uint64_t bytes, uint64_t
 * window_id): does nothing; the service's uprobe on it is how the service learns of the
 * memory. */

#define ROCATTACH_COLLECTOR_UNLOADED "rocattach_collector_unloaded"
/* void rocattach_collector_unloaded(void): does nothing; called (noinline, exported) at
 * the end of OnUnload. The service's uprobe on it makes the kernel side open a window
 * again at the process's next hsa_init, where the stub calls the start function again.
 */

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SHARED_MEMORY_H_ */
