/* The records of a collector, as stored in the shared memory: slots of the rings,
 * entries of the in-flight table and of the dictionary. Plain C, fixed-width, the same
 * on both sides; part of shared_memory.h and of its version. */
#ifndef ROCATTACH_USERSPACE_ABI_RECORDS_H_
#define ROCATTACH_USERSPACE_ABI_RECORDS_H_

#include <stdint.h>

#define ROCATTACH_SLOT_BYTES 96u

enum rocattach_record_kind {
  ROCATTACH_RECORD_NONE = 0,
  ROCATTACH_RECORD_DISPATCH = 1,
  ROCATTACH_RECORD_COPY = 2,
  ROCATTACH_RECORD_MEMORY = 3, /* allocated or freed, scratch memory as well */
  ROCATTACH_RECORD_API = 4,    /* a call of an API function */
  ROCATTACH_RECORD_CLOCK = 5,
  ROCATTACH_RECORD_VALUES = 6,    /* follow their dispatch or sample */
  ROCATTACH_RECORD_SAMPLE = 7,    /* counters of a GPU over a span of time */
  ROCATTACH_RECORD_TEXT = 8,      /* follows its API call */
  ROCATTACH_RECORD_INSTANCES = 9, /* follow the values that they add up to */
};

/* Bits of rocattach_dispatch.flags. */
#define ROCATTACH_DISPATCH_UNTIMED 1u /* start and end are 0 */
/* times come from the application's signal: */
#define ROCATTACH_DISPATCH_APP_SIGNAL 2u
#define ROCATTACH_DISPATCH_UNFINISHED 4u /* never seen to complete */
#define ROCATTACH_DISPATCH_COUNTED 8u    /* its values follow in this ring */
/* The purposes of the record, one or more. Without any of them: `recording`. */
#define ROCATTACH_DISPATCH_BASELINE 16u     /* `recording` */
#define ROCATTACH_DISPATCH_SELECTED 32u     /* the plan's selection of dispatches */
#define ROCATTACH_DISPATCH_FOR_COUNTERS 64u /* the plan's selection of counters */
/* The target could not decide (enum rocattach_selected): the service must. */
#define ROCATTACH_DISPATCH_SELECTED_UNDECIDED 128u
#define ROCATTACH_DISPATCH_FOR_COUNTERS_UNDECIDED 256u
/* The upper 7 bits identify the plan that decided, so that a dispatch that outlives a
 * session is not mistaken for one of the next: compare with ROCATTACH_PLAN_TAG. Copies
 * have it too. */
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
  /* Counts dispatches of its kernel since the plan became active, from 1; 0: no plan
   * decided. */
  uint32_t iteration;
  /* The index in its queue. rocprofiler-sdk does not tell it: its records have the HIP
   * stream here instead, or 0; see hip_stream.h. */
  uint64_t packet_index;
  uint64_t dispatch_id; /* counts the dispatches of this process from 1; 0 unknown */
};

/* A memory copy; 96 bytes. */
struct rocattach_copy {
  uint16_t kind;                       /* ROCATTACH_RECORD_COPY */
  uint16_t flags;                      /* as for dispatches */
  uint16_t src_agent_id, dst_agent_id; /* dictionary; 0 unknown (host pointer) */
  uint64_t correlation_id;
  uint64_t enqueue_ns;
  uint64_t start_ns, end_ns;
  uint64_t bytes;
  uint32_t tid;
  uint16_t direction; /* enum rocattach_copy_direction */
  uint16_t engine;    /* enum rocattach_copy_engine */
  uint64_t src_address, dst_address;
  uint32_t hip_stream; /* number of the HIP stream plus 1; 0 unknown */
  uint32_t pad;
  uint64_t reserved[2];
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

/* Bits of rocattach_copy.flags besides UNTIMED and UNFINISHED: the purposes of the
 * record. The plan's tag is in the same bits as a dispatch's. */
#define ROCATTACH_COPY_BASELINE ROCATTACH_DISPATCH_BASELINE
#define ROCATTACH_COPY_SELECTED ROCATTACH_DISPATCH_SELECTED

/* A hardware counter of one dispatch or sample, reduced over its instances: shader
 * engines, channels and so on. */
struct rocattach_counter_value {
  uint16_t counter; /* index of rocattach_plan.counter_name */
  uint16_t pad;
  uint32_t instances; /* number of instances; at least 1 */
  double sum, minimum, maximum;
};

/* Counter values; 96 bytes. A dispatch with COUNTED, or a sample, and its values and
 * instances are published at once, in this order, in adjacent slots of one ring, or not
 * at all. */
#define ROCATTACH_VALUES_PER_SLOT 2u
struct rocattach_values {
  uint16_t kind;            /* ROCATTACH_RECORD_VALUES */
  uint16_t slots;           /* of this dispatch or sample, without its own */
  uint16_t slot;            /* this one, from 0 */
  uint16_t count;           /* used entries of value[], 1 or 2 */
  uint64_t correlation_id;  /* the dispatch's, or the sample's sample_id */
  uint64_t plan_generation; /* the plan that counter indices refer to */
  uint16_t pass;            /* of the GPU's architecture in the plan, from 0 */
  uint16_t agent_id;        /* dictionary */
  uint16_t of;              /* enum rocattach_record_kind: DISPATCH or SAMPLE */
  uint16_t instance_slots;  /* of this operation, after all of its values */
  struct rocattach_counter_value value[ROCATTACH_VALUES_PER_SLOT];
};

/* One instance of a counter: rocattach_values.value[].counter in the upper 16 bits, and
 * below them its position in each dimension of the hardware, 0 in those that the
 * counter does not have. */
#define ROCATTACH_INSTANCE_BITS 16u /* the channel, or whatever is numbered last */
#define ROCATTACH_INSTANCE_WGP_BITS 8u
#define ROCATTACH_INSTANCE_SHADER_ARRAY_BITS 6u
#define ROCATTACH_INSTANCE_SHADER_ENGINE_BITS 6u
#define ROCATTACH_INSTANCE_AID_BITS 6u
#define ROCATTACH_INSTANCE_XCC_BITS 6u
#define ROCATTACH_INSTANCE_WGP_SHIFT 16u
#define ROCATTACH_INSTANCE_SHADER_ARRAY_SHIFT 24u
#define ROCATTACH_INSTANCE_SHADER_ENGINE_SHIFT 30u
#define ROCATTACH_INSTANCE_AID_SHIFT 36u
#define ROCATTACH_INSTANCE_XCC_SHIFT 42u
#define ROCATTACH_INSTANCE_COUNTER_SHIFT 48u
#define ROCATTACH_INSTANCE_POSITION(instance) \
  ((instance) & ((1ull << ROCATTACH_INSTANCE_COUNTER_SHIFT) - 1))

struct rocattach_instance_value {
  uint64_t instance;
  double value;
};

/* Values of single instances; 96 bytes. */
#define ROCATTACH_INSTANCES_PER_SLOT 5u
#define ROCATTACH_MAX_INSTANCE_SLOTS 4096u
struct rocattach_instances {
  uint16_t kind;  /* ROCATTACH_RECORD_INSTANCES */
  uint16_t slot;  /* this one, from 0 */
  uint16_t count; /* used entries of value[] */
  uint16_t pad;
  uint64_t correlation_id; /* as in the values before */
  struct rocattach_instance_value value[ROCATTACH_INSTANCES_PER_SLOT];
};

/* The counters of a GPU over a span of time; 96 bytes; the values follow. The sums are
 * of this span only, so the sums of a session's samples may be added up. */
struct rocattach_sample {
  uint16_t kind; /* ROCATTACH_RECORD_SAMPLE */
  uint16_t flags;
  uint16_t agent_id;  /* dictionary */
  uint16_t pass;      /* of the architecture's sampler passes, from 0 */
  uint64_t sample_id; /* counts the samples of this process from 1 */
  uint64_t plan_generation;
  uint64_t begin_ns, end_ns;
  uint16_t values; /* number of values that follow */
  uint16_t slots;  /* number of their slots */
  uint32_t pad;
  uint64_t reserved[6];
};

/* An API call; 96 bytes. */
#define ROCATTACH_API_TEXT_BYTES 40u
#define ROCATTACH_API_TEXT_CUT 1u       /* flags: the text is longer */
#define ROCATTACH_API_TEXT_ARGUMENTS 2u /* flags: the text is the call's arguments */
#define ROCATTACH_API_MAX_TEXT_BYTES 65536u
struct rocattach_api_call {
  uint16_t kind; /* ROCATTACH_RECORD_API */
  uint16_t flags;
  uint16_t domain;   /* enum rocattach_plan_api */
  uint16_t function; /* of the domain; its name is a dictionary entry */
  uint32_t tid;
  uint32_t plan_tag;       /* ROCATTACH_PLAN_TAG of the plan that selected it */
  uint64_t correlation_id; /* as the SDK counts calls; 0: it does not know this one */
  uint64_t begin_ns, end_ns;
  uint64_t ancestor_id; /* correlation of the call that made this one; 0 none */
  uint16_t text_slots;  /* slots of rocattach_text that follow, with the text */
  uint16_t reserved[3];
  /* A marker's message, or a line "name=value" for each argument, NUL-terminated, if
   * that fits; else empty. */
  char text[ROCATTACH_API_TEXT_BYTES];
};

/* Part of a text that does not fit its call; 96 bytes. The call and its text are
 * published at once, in this order, in adjacent slots of one ring, or not at all. */
#define ROCATTACH_TEXT_SLOT_BYTES 88u
struct rocattach_text {
  uint16_t kind;  /* ROCATTACH_RECORD_TEXT */
  uint16_t slot;  /* this one, from 0 */
  uint16_t bytes; /* used of text[]: all of it, except in the last one */
  uint16_t pad;
  char text[ROCATTACH_TEXT_SLOT_BYTES];
};

enum rocattach_memory_operation {
  ROCATTACH_MEMORY_UNKNOWN = 0,
  ROCATTACH_MEMORY_ALLOCATE = 1,
  ROCATTACH_MEMORY_VMEM_ALLOCATE = 2, /* a handle of virtual memory */
  ROCATTACH_MEMORY_FREE = 3,
  ROCATTACH_MEMORY_VMEM_FREE = 4,
  ROCATTACH_MEMORY_SCRATCH_ALLOCATE = 5,
  ROCATTACH_MEMORY_SCRATCH_FREE = 6,
  ROCATTACH_MEMORY_SCRATCH_RECLAIM = 7, /* taken back by the runtime */
};

/* Memory that was allocated or freed by a call, or scratch memory by the runtime; 96
 * bytes. */
struct rocattach_memory {
  uint16_t kind;          /* ROCATTACH_RECORD_MEMORY */
  uint16_t operation;     /* enum rocattach_memory_operation */
  uint16_t agent_id;      /* dictionary; 0 unknown */
  uint16_t scratch_flags; /* as the runtime gives them: 1 once, 2 alternate */
  uint32_t tid;
  uint32_t plan_tag; /* ROCATTACH_PLAN_TAG of the plan that selected it */
  /* As the SDK counts calls: the correlation_id of the API call; without an SDK it
   * counts these records from 1. */
  uint64_t correlation_id;
  uint64_t start_ns, end_ns; /* of the call */
  uint64_t address;          /* 0 unknown */
  uint64_t bytes;            /* 0 unknown: when it is freed */
  uint32_t queue_id;         /* dictionary; scratch memory */
  uint32_t pad;
  uint64_t reserved[4];
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

/* An operation that is captured, but whose end is not known yet. It is in shared memory
 * so that a SIGKILL loses only the times and not the operation. It is a record without
 * the fields that are known only at the end: thousands may be in flight, so every byte
 * counts (inflight.h converts it back). A process that is killed while it publishes may
 * leave a record both here and in a ring: both have the same correlation id. */
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
  uint32_t xccs;    /* accelerator complex dies; 0: the interface does not tell */
  /* The GPU's family, and the maximum sizes of a kernel in work-items; 0: the interface
   * does not tell. */
  uint32_t family_id;
  uint32_t workgroup_max_size, grid_max_size;
  uint32_t workgroup_max[3], grid_max[3]; /* of each dimension */
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

/* An API function. All functions that the backend can trace are entered before
 * `backend` is stored, so that the service can write a plan that names functions. */
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
ROCATTACH_ASSERT_SIZE(rocattach_dispatch, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_copy, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_clock, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_counter_value, 32);
ROCATTACH_ASSERT_SIZE(rocattach_values, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_sample, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_api_call, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_text, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_instances, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_memory, ROCATTACH_SLOT_BYTES);
ROCATTACH_ASSERT_SIZE(rocattach_inflight, 80);

#endif /* ROCATTACH_USERSPACE_ABI_RECORDS_H_ */
