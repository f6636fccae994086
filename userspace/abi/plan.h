/* The plan of a session, as the collector inside a target reads it.
 *
 * Plain C, fixed-width, no pointers: the service compiles a session's filters into this
 * block and copies it into the shared memory; the collector evaluates it for every
 * dispatch, so that nothing is recorded that a session does not want. Regular
 * expressions never run in a target: the service matches them when a kernel appears in
 * the dictionary and sets the kernel's bit.
 *
 * Writing a plan (the service is the only writer):
 *   1. generation + 1 (odd), release      readers treat the plan as empty
 *   2. everything else
 *   3. generation + 1 (even), release     the plan is active
 * A reader loads generation (acquire), evaluates, loads it again; on a change it
 * evaluates again and gives up (records nothing) if that changes too. All indices are
 * bounded by the constants below, so an inconsistent read can only decide one dispatch
 * wrongly, never access memory outside the block. The kernel bitmaps are the exception
 * to the write protocol: bits are added to the active plan (see kernels_decided).
 *
 * A dispatch that the target cannot decide (a kernel whose name the service has not
 * seen yet, a list longer than the table) is recorded, marked as
 * ROCATTACH_SELECTED_UNDECIDED; the service, which has the exact filter, decides. */
#ifndef ROCATTACH_USERSPACE_ABI_PLAN_H_
#define ROCATTACH_USERSPACE_ABI_PLAN_H_

#include <stdint.h>

#define ROCATTACH_PLAN_MAGIC 0x314e4c5052415752ull /* "RWARPLN1" */
#define ROCATTACH_PLAN_VERSION 3u

#define ROCATTACH_PLAN_MAX_KERNELS 65536u /* kernel ids with a bit */
#define ROCATTACH_PLAN_MAX_AGENTS 256u    /* agent ids with a bit */
#define ROCATTACH_PLAN_MAX_RANGES 32u
#define ROCATTACH_PLAN_MAX_ARCHITECTURES 8u
#define ROCATTACH_PLAN_MAX_PASSES 256u
#define ROCATTACH_PLAN_MAX_COUNTERS 768u /* distinct names */
#define ROCATTACH_PLAN_MAX_PASS_COUNTERS 3072u
#define ROCATTACH_PLAN_NAME_BYTES 64u
#define ROCATTACH_PLAN_API_FUNCTIONS 1024u /* function ids of one domain */

/* Kinds of data that the session records (record_kinds). */
#define ROCATTACH_PLAN_RECORD_DISPATCHES 1u
#define ROCATTACH_PLAN_RECORD_COUNTERS 2u
#define ROCATTACH_PLAN_RECORD_COPIES 4u
#define ROCATTACH_PLAN_RECORD_API 8u
#define ROCATTACH_PLAN_RECORD_SAMPLES 16u
#define ROCATTACH_PLAN_RECORD_MEMORY 32u     /* allocations by calls */
#define ROCATTACH_PLAN_RECORD_SCRATCH 64u    /* scratch memory */
#define ROCATTACH_PLAN_RECORD_INSTANCES 128u /* with COUNTERS: of each instance too */
#define ROCATTACH_PLAN_RECORD_ARGUMENTS 256u /* with API: of each call */

/* Conditions of a selection (flags); all that are present must hold. */
#define ROCATTACH_SELECT_KERNELS 1u
#define ROCATTACH_SELECT_AGENTS 2u
#define ROCATTACH_SELECT_DISPATCHES 4u
#define ROCATTACH_SELECT_ITERATIONS 8u
#define ROCATTACH_SELECT_COARSE 16u /* ranges were widened: never a certain match */

enum rocattach_selected {
  ROCATTACH_SELECTED_NO = 0,
  ROCATTACH_SELECTED_YES = 1,
  ROCATTACH_SELECTED_UNDECIDED = 2, /* record it; the service decides */
};

/* Inclusive. */
struct rocattach_plan_range {
  uint64_t first, last;
};

/* Selects the dispatches of one filter. */
struct rocattach_plan_selection {
  uint32_t flags;
  /* The bits of kernel ids below this are valid; atomic, release after the bits, grows
   * while the plan is active. Ids from here on are undecided. */
  uint32_t kernels_decided;
  uint32_t dispatch_ranges;                        /* used entries of dispatches[] */
  uint32_t iteration_ranges;                       /* used entries of iterations[] */
  uint64_t agents[ROCATTACH_PLAN_MAX_AGENTS / 64]; /* bit: dictionary agent id */
  /* Dispatches of the process, counted from 1. */
  struct rocattach_plan_range dispatches[ROCATTACH_PLAN_MAX_RANGES];
  /* Dispatches of the kernel since the session started, counted from 1. */
  struct rocattach_plan_range iterations[ROCATTACH_PLAN_MAX_RANGES];
  uint64_t kernels[ROCATTACH_PLAN_MAX_KERNELS / 64]; /* bit: dictionary kernel id */
};

/* The selection of each filter (index of rocattach_plan.selections). */
#define ROCATTACH_PLAN_SELECTION_DISPATCHES 0u
#define ROCATTACH_PLAN_SELECTION_COUNTERS 1u
#define ROCATTACH_PLAN_SELECTIONS 2u

/* API domains that a plan can trace (index of rocattach_plan.api). */
enum rocattach_plan_api {
  ROCATTACH_PLAN_API_HSA = 0,
  ROCATTACH_PLAN_API_HIP = 1,
  ROCATTACH_PLAN_API_MARKER = 2,
  ROCATTACH_PLAN_API_RCCL = 3,
  ROCATTACH_PLAN_API_DOMAINS = 4,
};

struct rocattach_plan_api_functions {
  uint32_t enabled; /* 0: the domain is not traced */
  uint32_t all;     /* 1: every function; else those with their bit */
  uint64_t functions[ROCATTACH_PLAN_API_FUNCTIONS / 64];
};

/* Counters that are measured together: pass_counters[first_counter …]. */
struct rocattach_plan_pass {
  uint16_t first_counter;
  uint16_t counters;
};

/* The passes for GPUs of this architecture: pass[first_pass …]. */
struct rocattach_plan_architecture {
  char name[16]; /* "gfx90a", NUL-terminated */
  uint16_t dispatch_first_pass, dispatch_passes;
  uint16_t sampler_first_pass, sampler_passes;
};

/* The multiplexing of passes. */
enum rocattach_plan_rotation {
  ROCATTACH_ROTATE_NONE = 0,       /* there is one pass */
  ROCATTACH_ROTATE_ITERATIONS = 1, /* over the dispatches of each kernel */
  ROCATTACH_ROTATE_TIME = 2,       /* over time, all kernels alike */
};

struct rocattach_plan {
  uint64_t magic;
  uint32_t version;
  uint32_t bytes;      /* sizeof(struct rocattach_plan) */
  uint64_t generation; /* atomic; odd while the plan is being written */
  uint64_t session_id;
  uint64_t start_ns; /* CLOCK_BOOTTIME, the origin of rotation by time */
  uint32_t record_kinds;
  uint32_t rotation;          /* enum rocattach_plan_rotation */
  uint64_t rotation_interval; /* iterations, or nanoseconds; at least 1 */
  uint64_t sample_interval_ns;
  uint64_t sample_delay_ns;
  uint64_t sample_duration_ns; /* 0: until the session stops */
  uint64_t sample_agents[ROCATTACH_PLAN_MAX_AGENTS / 64];
  uint32_t architectures, passes, counters, pass_counters_used;
  /* For samples and calls in a process that was armed without rocprofiler-sdk: the
   * library's path as that process sees it. Empty: it must not be loaded. */
  char late_sdk[256];
  struct rocattach_plan_architecture architecture[ROCATTACH_PLAN_MAX_ARCHITECTURES];
  struct rocattach_plan_pass pass[ROCATTACH_PLAN_MAX_PASSES];
  uint16_t pass_counters[ROCATTACH_PLAN_MAX_PASS_COUNTERS]; /* index of counter_name */
  char counter_name[ROCATTACH_PLAN_MAX_COUNTERS][ROCATTACH_PLAN_NAME_BYTES];
  struct rocattach_plan_api_functions api[ROCATTACH_PLAN_API_DOMAINS];
  struct rocattach_plan_selection selections[ROCATTACH_PLAN_SELECTIONS];
};

#ifdef __cplusplus
#define ROCATTACH_PLAN_ASSERT(condition, text) static_assert(condition, text)
#else
#define ROCATTACH_PLAN_ASSERT(condition, text) _Static_assert(condition, text)
#endif
ROCATTACH_PLAN_ASSERT(sizeof(struct rocattach_plan_range) == 16, "fixed size");
ROCATTACH_PLAN_ASSERT(sizeof(struct rocattach_plan_pass) == 4, "fixed size");
ROCATTACH_PLAN_ASSERT(sizeof(struct rocattach_plan_architecture) == 24, "fixed size");
ROCATTACH_PLAN_ASSERT(sizeof(struct rocattach_plan_selection) == 16 + 32 + 1024 + 8192,
                      "fixed size");
ROCATTACH_PLAN_ASSERT(sizeof(struct rocattach_plan) == 75968, "fixed size");
ROCATTACH_PLAN_ASSERT(ROCATTACH_PLAN_MAX_PASS_COUNTERS <= 65535 &&
                          ROCATTACH_PLAN_MAX_PASSES <= 65535,
                      "indices are 16 bits");

/* 1 if `value` lies in one of the first `count` ranges. */
static inline int rocattach_plan_in_ranges(const struct rocattach_plan_range* ranges,
                                           uint32_t count, uint64_t value) {
  if (count > ROCATTACH_PLAN_MAX_RANGES) count = ROCATTACH_PLAN_MAX_RANGES;
  for (uint32_t i = 0; i < count; ++i) {
    if (value >= ranges[i].first && value <= ranges[i].last) return 1;
  }
  return 0;
}

/* Decides whether a dispatch is wanted. `agent` and `kernel` are dictionary ids (0: not
 * known), `dispatch` is its number among those of the process and `iteration` among
 * those of the kernel, from 1. */
static inline enum rocattach_selected rocattach_plan_selects(
    const struct rocattach_plan_selection* selection, uint32_t kernel, uint32_t agent,
    uint64_t dispatch, uint64_t iteration) {
  uint32_t flags = __atomic_load_n(&selection->flags, __ATOMIC_RELAXED);
  enum rocattach_selected result = ROCATTACH_SELECTED_YES;
  if (flags & ROCATTACH_SELECT_AGENTS) {
    if (agent == 0 || agent >= ROCATTACH_PLAN_MAX_AGENTS) {
      result = ROCATTACH_SELECTED_UNDECIDED;
    } else if (!(selection->agents[agent / 64] >> (agent % 64) & 1)) {
      return ROCATTACH_SELECTED_NO;
    }
  }
  if (flags & ROCATTACH_SELECT_KERNELS) {
    uint32_t decided = __atomic_load_n(&selection->kernels_decided, __ATOMIC_ACQUIRE);
    if (kernel == 0 || kernel >= decided || kernel >= ROCATTACH_PLAN_MAX_KERNELS) {
      result = ROCATTACH_SELECTED_UNDECIDED;
    } else {
      uint64_t word =
          __atomic_load_n(&selection->kernels[kernel / 64], __ATOMIC_RELAXED);
      if (!(word >> (kernel % 64) & 1)) return ROCATTACH_SELECTED_NO;
    }
  }
  if ((flags & ROCATTACH_SELECT_DISPATCHES) &&
      !rocattach_plan_in_ranges(selection->dispatches, selection->dispatch_ranges,
                                dispatch)) {
    return ROCATTACH_SELECTED_NO;
  }
  if ((flags & ROCATTACH_SELECT_ITERATIONS) &&
      !rocattach_plan_in_ranges(selection->iterations, selection->iteration_ranges,
                                iteration)) {
    return ROCATTACH_SELECTED_NO;
  }
  if (flags & ROCATTACH_SELECT_COARSE) result = ROCATTACH_SELECTED_UNDECIDED;
  return result;
}

/* The next iteration of a kernel (from 1) in the session that `generation` identifies.
 * The collector keeps one cell, zero at first, per kernel id; a cell of another session
 * restarts by itself, so that nothing has to be cleared when a plan changes. */
static inline uint64_t rocattach_plan_next_iteration(uint64_t* cell,
                                                     uint64_t generation) {
  uint64_t tag = (generation & 0xffffffu) << 40;
  uint64_t old = __atomic_load_n(cell, __ATOMIC_RELAXED);
  uint64_t next;
  do {
    next = (old >> 40 << 40) == tag ? old + 1 : tag + 1;
    if ((next & 0xffffffffffull) == 0) next = tag + 1; /* 2^40 dispatches later */
  } while (!__atomic_compare_exchange_n(cell, &old, next, 1, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
  return next & 0xffffffffffull;
}

/* The number of the pass that is due, of `passes`, from 0. `iteration` as above. */
static inline uint32_t rocattach_plan_due_pass(const struct rocattach_plan* plan,
                                               uint32_t passes, uint64_t iteration,
                                               uint64_t now_ns) {
  uint64_t interval = plan->rotation_interval ? plan->rotation_interval : 1;
  if (passes <= 1) return 0;
  if (plan->rotation == ROCATTACH_ROTATE_ITERATIONS) {
    return (uint32_t)((iteration ? iteration - 1 : 0) / interval % passes);
  }
  if (plan->rotation == ROCATTACH_ROTATE_TIME) {
    uint64_t since = now_ns > plan->start_ns ? now_ns - plan->start_ns : 0;
    return (uint32_t)(since / interval % passes);
  }
  return 0;
}

/* 1 if the function is to be traced. */
static inline int rocattach_plan_traces(const struct rocattach_plan* plan,
                                        uint32_t domain, uint32_t function) {
  const struct rocattach_plan_api_functions* api;
  if (domain >= ROCATTACH_PLAN_API_DOMAINS) return 0;
  api = &plan->api[domain];
  if (!api->enabled) return 0;
  if (api->all) return 1;
  if (function >= ROCATTACH_PLAN_API_FUNCTIONS) return 0;
  return (int)(api->functions[function / 64] >> (function % 64) & 1);
}

#endif /* ROCATTACH_USERSPACE_ABI_PLAN_H_ */
