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
 *   dictionary_offset        append-only entries: agents, queues, code objects, kernels
 *
 * All times are CLOCK_BOOTTIME nanoseconds. "Atomic" fields are read and written with
 * __atomic builtins; `release`/`acquire` where the comment says so, else relaxed.
 */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SHARED_MEMORY_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SHARED_MEMORY_H_

#include <stdint.h>

#define ROCATTACH_SHM_MAGIC 0x314d485352415752ull /* "RWARSHM1" */
#define ROCATTACH_SHM_VERSION 1u
#define ROCATTACH_SHM_NAME "rocattach" /* memfd name: /memfd:rocattach in maps */
#define ROCATTACH_SHM_MAX_BYTES (256ull << 20)

#define ROCATTACH_RING_HEADER_BYTES 256u
#define ROCATTACH_SLOT_BYTES 96u

/* What to record; bits of plan_flags. */
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
  uint64_t window_id;     /* the service's number of this attach window, echoed */
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

  /* Service -> collector, atomic. On a cache line of their own. */
  uint32_t service_mapped __attribute__((aligned(128))); /* futex: 1 once mapped */
  uint32_t command;   /* futex: +1 with each change below, release */
  uint32_t recording; /* 1 start, 0 stop */
  uint32_t pad1;
  uint64_t plan_flags;
  uint64_t service_beat_ns; /* last time the service drained; 0 never */
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
  uint64_t reserved[23];
};

enum rocattach_record_kind {
  ROCATTACH_RECORD_NONE = 0,
  ROCATTACH_RECORD_DISPATCH = 1,
  ROCATTACH_RECORD_COPY = 2,
  ROCATTACH_RECORD_ALLOCATION = 3,
  ROCATTACH_RECORD_API = 4,
  ROCATTACH_RECORD_CLOCK = 5,
};

/* Bits of rocattach_dispatch.flags. */
#define ROCATTACH_DISPATCH_UNTIMED 1u /* start and end are 0 */
/* times come from the application's signal: */
#define ROCATTACH_DISPATCH_APP_SIGNAL 2u
#define ROCATTACH_DISPATCH_UNFINISHED 4u /* never seen to complete */

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
  uint32_t pad;
  uint64_t packet_index; /* in its queue */
  uint64_t reserved;
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
 * loses only the times and never the fact. The 96 bytes are a struct rocattach_dispatch
 * or, if their kind says so, a struct rocattach_copy. A process that is killed while it
 * publishes may leave a record both here and in a ring: the correlation id tells. */
struct rocattach_inflight {
  uint32_t state; /* 0 free, 1 captured (release); collector clears it */
  uint32_t pad;
  struct rocattach_dispatch dispatch;
  uint64_t reserved;
};

/* Dictionary: entries follow each other, 8-byte aligned, from dictionary_offset.
 * An entry is complete once dictionary_used covers it; it never changes after that. */
enum rocattach_entry_kind {
  ROCATTACH_ENTRY_AGENT = 1,
  ROCATTACH_ENTRY_QUEUE = 2,
  ROCATTACH_ENTRY_KERNEL = 3,
  ROCATTACH_ENTRY_CODE_OBJECT = 4,
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

#ifdef __cplusplus
#define ROCATTACH_ASSERT_SIZE(type, bytes) \
  static_assert(sizeof(struct type) == (bytes), #type " has a fixed size")
#else
#define ROCATTACH_ASSERT_SIZE(type, bytes) \
  _Static_assert(sizeof(struct type) == (bytes), #type " has a fixed size")
#endif
ROCATTACH_ASSERT_SIZE(rocattach_dispatch, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_copy, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_clock, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_ring, ROCATTACH_RING_HEADER_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_inflight, 112);

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
