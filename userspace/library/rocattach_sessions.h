/* Profiling sessions, with the life cycle, status values and order of checks of
 * ROCProfiler's version 2 API, for any number of processes with a collector.
 *
 * The library is librocattach-sessions (pkg-config: rocattach-sessions; CMake:
 * rocattach::sessions). A running rocattach-watch does the work: the one at the socket
 * that the variable ROCATTACH_SOCKET names, or at /run/rocattach/control.sock. The user
 * of the library must be root or the user of the service. A session ends when its
 * program does.
 *
 * The names are those of ROCProfiler with the prefixes "rocattach_" and "ROCATTACH_";
 * the manual page rocattach_sessions(3) describes what else is needed to port a program
 * and has an example of each kind of session. A session is created, given filters (what
 * to collect) and buffers (where to), started, terminated, started again as often as
 * wanted, and destroyed. Ids are valid until the destroy call.
 *
 * All functions may be called from any thread, and from inside any callback. Inside a
 * callback, a flush of a buffer that is being delivered, and any call that implies one,
 * is deferred until the callback has returned. rocattach_session_error_detail gives
 * details of all errors.
 *
 * When a service ends or is killed, its sessions end too: records that had arrived are
 * delivered, then the callback of rocattach_set_session_lost_callback is called;
 * rocattach_check_session and rocattach_terminate_session return ERROR and say why, and
 * the session can be started again. Every call connects to a restarted service.
 * A service that does not answer because it is stopped or hangs makes a call fail with
 * ERROR after some seconds.
 *
 * The library belongs to the process that called it first. In a child that this process
 * creates with fork(), every call returns at once, rocattach_initialize with ERROR and
 * all others with NOT_INITIALIZED; a program that the child executes is not affected.
 *
 * Order of checks, in every function: initialized, session, then what its comment
 * lists, in that order. The first check that fails decides; nothing has been changed
 * then. */
#ifndef ROCATTACH_SESSIONS_H_
#define ROCATTACH_SESSIONS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A number outside of an enumeration is refused with a status. In C++ it may be
 * inspected only if the enumeration has a fixed underlying type; C needs none. */
#ifdef __cplusplus
#define ROCATTACH_SESSIONS_ENUM : int
#else
#define ROCATTACH_SESSIONS_ENUM
#endif

#if defined(__GNUC__)
#define ROCATTACH_SESSIONS_API __attribute__((visibility("default")))
#else
#define ROCATTACH_SESSIONS_API
#endif

/* ROCPROFILER_STATUS_ERROR_X is ROCATTACH_SESSION_ERROR_X here, with the same value.
 *
 * These exist for programs that mention them, and are never returned: what they stand
 * for is not supported (NOT_IMPLEMENTED is not returned either: the status for such a
 * filter is FILTER_NOT_SUPPORTED).
 *   TIMESTAMP_NOT_APPLICABLE, AGENT_INFORMATION_MISSING, QUEUE_NOT_FOUND,
 *   QUEUE_INFORMATION_MISSING, KERNEL_INFORMATION_MISSING, TRACER_API_DATA_NOT_FOUND,
 *   TRACER_API_DATA_INFORMATION_MISSING, CORRUPTED_LABEL_DATA, RANGE_STACK_IS_EMPTY,
 *   PASS_NOT_STARTED, NOT_IMPLEMENTED, MISMATCHED_EXTERNAL_CORRELATION_ID */
typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_SESSION_SUCCESS = 0,
  ROCATTACH_SESSION_ERROR = -1,
  ROCATTACH_SESSION_ERROR_ALREADY_INITIALIZED = -2,
  ROCATTACH_SESSION_ERROR_NOT_INITIALIZED = -3,
  ROCATTACH_SESSION_ERROR_SESSION_MISSING_BUFFER = -4,
  ROCATTACH_SESSION_ERROR_TIMESTAMP_NOT_APPLICABLE = -5,
  ROCATTACH_SESSION_ERROR_AGENT_NOT_FOUND = -6,
  ROCATTACH_SESSION_ERROR_AGENT_INFORMATION_MISSING = -7,
  ROCATTACH_SESSION_ERROR_QUEUE_NOT_FOUND = -8,
  ROCATTACH_SESSION_ERROR_QUEUE_INFORMATION_MISSING = -9,
  ROCATTACH_SESSION_ERROR_KERNEL_NOT_FOUND = -10,
  ROCATTACH_SESSION_ERROR_KERNEL_INFORMATION_MISSING = -11,
  ROCATTACH_SESSION_ERROR_COUNTER_NOT_FOUND = -12,
  ROCATTACH_SESSION_ERROR_COUNTER_INFORMATION_MISSING = -13,
  ROCATTACH_SESSION_ERROR_TRACER_API_DATA_NOT_FOUND = -14,
  ROCATTACH_SESSION_ERROR_TRACER_API_DATA_INFORMATION_MISSING = -15,
  ROCATTACH_SESSION_ERROR_INCORRECT_DOMAIN = -16,
  ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND = -17,
  ROCATTACH_SESSION_ERROR_CORRUPTED_SESSION_BUFFER = -18,
  ROCATTACH_SESSION_ERROR_RECORD_CORRUPTED = -19,
  ROCATTACH_SESSION_ERROR_INCORRECT_REPLAY_MODE = -20,
  ROCATTACH_SESSION_ERROR_SESSION_MISSING_FILTER = -21,
  ROCATTACH_SESSION_ERROR_INCORRECT_SIZE = -22,
  ROCATTACH_SESSION_ERROR_INCORRECT_FLUSH_INTERVAL = -23,
  ROCATTACH_SESSION_ERROR_SESSION_FILTER_DATA_MISMATCH = -24,
  ROCATTACH_SESSION_ERROR_FILTER_DATA_CORRUPTED = -25,
  ROCATTACH_SESSION_ERROR_CORRUPTED_LABEL_DATA = -26,
  ROCATTACH_SESSION_ERROR_RANGE_STACK_IS_EMPTY = -27,
  ROCATTACH_SESSION_ERROR_PASS_NOT_STARTED = -28,
  ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION = -29,
  ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE = -30,
  ROCATTACH_SESSION_ERROR_FILTER_NOT_FOUND = -31,
  ROCATTACH_SESSION_ERROR_BUFFER_NOT_FOUND = -32,
  ROCATTACH_SESSION_ERROR_FILTER_NOT_SUPPORTED = -33,
  ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS = -34,
  ROCATTACH_SESSION_ERROR_INVALID_OPERATION_ID = -35,
  ROCATTACH_SESSION_ERROR_INVALID_DOMAIN_ID = -36,
  ROCATTACH_SESSION_ERROR_NOT_IMPLEMENTED = -37,
  ROCATTACH_SESSION_ERROR_MISMATCHED_EXTERNAL_CORRELATION_ID = -38,
  /* Names from ROCProfiler's documentation that are not in its enumeration. */
  ROCATTACH_SESSION_ERROR_SESSION_MODE_NOT_ADDED =
      ROCATTACH_SESSION_ERROR_SESSION_MISSING_FILTER,
  ROCATTACH_SESSION_ERROR_MISSING_SESSION_CALLBACK =
      ROCATTACH_SESSION_ERROR_SESSION_MISSING_BUFFER,
  ROCATTACH_SESSION_ERROR_SESSION_MODE_FILTER_MISMATCH =
      ROCATTACH_SESSION_ERROR_SESSION_FILTER_DATA_MISMATCH,
  /* The same as ROCProfiler spells them: only the prefix differs. */
  ROCATTACH_STATUS_ERROR_ALREADY_INITIALIZED =
      ROCATTACH_SESSION_ERROR_ALREADY_INITIALIZED,
  ROCATTACH_STATUS_ERROR_NOT_INITIALIZED = ROCATTACH_SESSION_ERROR_NOT_INITIALIZED,
  ROCATTACH_STATUS_ERROR_SESSION_MISSING_BUFFER =
      ROCATTACH_SESSION_ERROR_SESSION_MISSING_BUFFER,
  ROCATTACH_STATUS_ERROR_TIMESTAMP_NOT_APPLICABLE =
      ROCATTACH_SESSION_ERROR_TIMESTAMP_NOT_APPLICABLE,
  ROCATTACH_STATUS_ERROR_AGENT_NOT_FOUND = ROCATTACH_SESSION_ERROR_AGENT_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_AGENT_INFORMATION_MISSING =
      ROCATTACH_SESSION_ERROR_AGENT_INFORMATION_MISSING,
  ROCATTACH_STATUS_ERROR_QUEUE_NOT_FOUND = ROCATTACH_SESSION_ERROR_QUEUE_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_QUEUE_INFORMATION_MISSING =
      ROCATTACH_SESSION_ERROR_QUEUE_INFORMATION_MISSING,
  ROCATTACH_STATUS_ERROR_KERNEL_NOT_FOUND = ROCATTACH_SESSION_ERROR_KERNEL_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_KERNEL_INFORMATION_MISSING =
      ROCATTACH_SESSION_ERROR_KERNEL_INFORMATION_MISSING,
  ROCATTACH_STATUS_ERROR_COUNTER_NOT_FOUND = ROCATTACH_SESSION_ERROR_COUNTER_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_COUNTER_INFORMATION_MISSING =
      ROCATTACH_SESSION_ERROR_COUNTER_INFORMATION_MISSING,
  ROCATTACH_STATUS_ERROR_TRACER_API_DATA_NOT_FOUND =
      ROCATTACH_SESSION_ERROR_TRACER_API_DATA_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_TRACER_API_DATA_INFORMATION_MISSING =
      ROCATTACH_SESSION_ERROR_TRACER_API_DATA_INFORMATION_MISSING,
  ROCATTACH_STATUS_ERROR_INCORRECT_DOMAIN = ROCATTACH_SESSION_ERROR_INCORRECT_DOMAIN,
  ROCATTACH_STATUS_ERROR_SESSION_NOT_FOUND = ROCATTACH_SESSION_ERROR_SESSION_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_CORRUPTED_SESSION_BUFFER =
      ROCATTACH_SESSION_ERROR_CORRUPTED_SESSION_BUFFER,
  ROCATTACH_STATUS_ERROR_RECORD_CORRUPTED = ROCATTACH_SESSION_ERROR_RECORD_CORRUPTED,
  ROCATTACH_STATUS_ERROR_INCORRECT_REPLAY_MODE =
      ROCATTACH_SESSION_ERROR_INCORRECT_REPLAY_MODE,
  ROCATTACH_STATUS_ERROR_SESSION_MISSING_FILTER =
      ROCATTACH_SESSION_ERROR_SESSION_MISSING_FILTER,
  ROCATTACH_STATUS_ERROR_INCORRECT_SIZE = ROCATTACH_SESSION_ERROR_INCORRECT_SIZE,
  ROCATTACH_STATUS_ERROR_INCORRECT_FLUSH_INTERVAL =
      ROCATTACH_SESSION_ERROR_INCORRECT_FLUSH_INTERVAL,
  ROCATTACH_STATUS_ERROR_SESSION_FILTER_DATA_MISMATCH =
      ROCATTACH_SESSION_ERROR_SESSION_FILTER_DATA_MISMATCH,
  ROCATTACH_STATUS_ERROR_FILTER_DATA_CORRUPTED =
      ROCATTACH_SESSION_ERROR_FILTER_DATA_CORRUPTED,
  ROCATTACH_STATUS_ERROR_CORRUPTED_LABEL_DATA =
      ROCATTACH_SESSION_ERROR_CORRUPTED_LABEL_DATA,
  ROCATTACH_STATUS_ERROR_RANGE_STACK_IS_EMPTY =
      ROCATTACH_SESSION_ERROR_RANGE_STACK_IS_EMPTY,
  ROCATTACH_STATUS_ERROR_PASS_NOT_STARTED = ROCATTACH_SESSION_ERROR_PASS_NOT_STARTED,
  ROCATTACH_STATUS_ERROR_HAS_ACTIVE_SESSION =
      ROCATTACH_SESSION_ERROR_HAS_ACTIVE_SESSION,
  ROCATTACH_STATUS_ERROR_SESSION_NOT_ACTIVE =
      ROCATTACH_SESSION_ERROR_SESSION_NOT_ACTIVE,
  ROCATTACH_STATUS_ERROR_FILTER_NOT_FOUND = ROCATTACH_SESSION_ERROR_FILTER_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_BUFFER_NOT_FOUND = ROCATTACH_SESSION_ERROR_BUFFER_NOT_FOUND,
  ROCATTACH_STATUS_ERROR_FILTER_NOT_SUPPORTED =
      ROCATTACH_SESSION_ERROR_FILTER_NOT_SUPPORTED,
  ROCATTACH_STATUS_ERROR_INVALID_ARGUMENTS = ROCATTACH_SESSION_ERROR_INVALID_ARGUMENTS,
  ROCATTACH_STATUS_ERROR_INVALID_OPERATION_ID =
      ROCATTACH_SESSION_ERROR_INVALID_OPERATION_ID,
  ROCATTACH_STATUS_ERROR_INVALID_DOMAIN_ID = ROCATTACH_SESSION_ERROR_INVALID_DOMAIN_ID,
  ROCATTACH_STATUS_ERROR_NOT_IMPLEMENTED = ROCATTACH_SESSION_ERROR_NOT_IMPLEMENTED,
  ROCATTACH_STATUS_ERROR_MISMATCHED_EXTERNAL_CORRELATION_ID =
      ROCATTACH_SESSION_ERROR_MISMATCHED_EXTERNAL_CORRELATION_ID,
  ROCATTACH_STATUS_ERROR_SESSION_MODE_NOT_ADDED =
      ROCATTACH_SESSION_ERROR_SESSION_MODE_NOT_ADDED,
  ROCATTACH_STATUS_ERROR_MISSING_SESSION_CALLBACK =
      ROCATTACH_SESSION_ERROR_MISSING_SESSION_CALLBACK,
  ROCATTACH_STATUS_ERROR_SESSION_MODE_FILTER_MISMATCH =
      ROCATTACH_SESSION_ERROR_SESSION_MODE_FILTER_MISMATCH
} rocattach_session_status_t;

/* ROCProfiler's names for the type and for these two values. rocattach.h gives them
 * another meaning, which they have in a program that includes both headers. */
#ifndef ROCATTACH_ROCATTACH_H_
#define rocattach_status_t rocattach_session_status_t
#define ROCATTACH_STATUS_SUCCESS ROCATTACH_SESSION_SUCCESS
#define ROCATTACH_STATUS_ERROR ROCATTACH_SESSION_ERROR
#endif

typedef struct {
  uint64_t handle; /* never 0 */
} rocattach_session_id_t;
typedef struct {
  uint64_t value; /* never 0 */
} rocattach_buffer_id_t;
typedef struct {
  uint64_t value; /* never 0 */
} rocattach_filter_id_t;

/* The only mode is no replay. */
typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_NONE_REPLAY_MODE = -1
} rocattach_replay_mode_t;

/* ---- Records. They follow each other in a buffer, each 8-byte aligned. ---- */

typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_PROFILER_RECORD = 0,        /* rocattach_record_profiler_t */
  ROCATTACH_TRACER_RECORD = 1,          /* rocattach_record_tracer_t */
  ROCATTACH_ATT_TRACER_RECORD = 2,      /* not produced */
  ROCATTACH_PC_SAMPLING_RECORD = 3,     /* not produced */
  ROCATTACH_SPM_RECORD = 4,             /* not produced */
  ROCATTACH_COUNTERS_SAMPLER_RECORD = 5 /* rocattach_record_counters_sampler_t */
} rocattach_record_kind_t;

typedef struct {
  uint32_t kind;  /* rocattach_record_kind_t */
  uint32_t bytes; /* size of the whole record; the next one follows */
  uint64_t id;    /* counts the records of a buffer, from 1 */
} rocattach_record_header_t;

typedef struct {
  uint32_t value;
} rocattach_thread_id_t;

/* CLOCK_BOOTTIME nanoseconds, as rocattach_get_timestamp(); 0: not known. */
typedef struct {
  uint64_t begin, end;
} rocattach_record_timestamps_t;

/* One value. Absent values are not in a record; a value of 0 was measured. */
typedef struct {
  uint32_t counter; /* index into the names that the filter was created with */
  uint32_t pad;
  double value; /* summed over the instances of a hardware counter */
} rocattach_record_counter_t;

/* Bits of rocattach_record_profiler_t.selected_by. */
#define ROCATTACH_SELECTED_BY_TIMESTAMPS 1u /* DISPATCH_TIMESTAMPS_COLLECTION */
#define ROCATTACH_SELECTED_BY_COUNTERS 2u   /* COUNTERS_COLLECTION */

/* Not a GPU, or not known. */
#define ROCATTACH_NO_GPU UINT32_MAX

/* A kernel dispatch, with counters if a COUNTERS_COLLECTION filter selected it. */
typedef struct {
  rocattach_record_header_t header;
  int32_t pid;
  union {
    uint32_t tid;
    rocattach_thread_id_t thread_id; /* the same */
  };
  uint32_t
      gpu_id; /* as in 'rocattach report' and in --gpu: from 0, or ROCATTACH_NO_GPU */
  uint32_t queue_id;
  uint32_t kernel_id; /* rocattach_query_kernel_name; 0: not known */
  uint32_t pass;      /* pass that its counters belong to, from 0 */
  uint64_t correlation_id;
  rocattach_record_timestamps_t timestamps;
  uint32_t grid_size[3]; /* work-items */
  uint32_t workgroup_size[3];
  uint32_t lds_bytes;
  uint32_t scratch_bytes;
  uint32_t selected_by; /* filters that selected it: ROCATTACH_SELECTED_BY_* */
  uint32_t counters_count;
  /* rocattach_record_counter_t[counters_count] follow */
} rocattach_record_profiler_t;

/* Domains of API tracing. */
typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_ACTIVITY_DOMAIN_NONE = -1,
  ROCATTACH_ACTIVITY_DOMAIN_HSA_API = 0,
  ROCATTACH_ACTIVITY_DOMAIN_HSA_OPS = 1, /* memory copies */
  ROCATTACH_ACTIVITY_DOMAIN_HIP_OPS = 2, /* cannot be traced */
  ROCATTACH_ACTIVITY_DOMAIN_HIP_API = 3,
  ROCATTACH_ACTIVITY_DOMAIN_KFD_API = 4, /* cannot be traced */
  ROCATTACH_ACTIVITY_DOMAIN_EXT_API = 5, /* cannot be traced */
  ROCATTACH_ACTIVITY_DOMAIN_ROCTX = 6,
  ROCATTACH_ACTIVITY_DOMAIN_RCCL_API = 32 /* not in ROCProfiler */
} rocattach_tracer_activity_domain_t;

/* An API call, or a memory copy (domain HSA_OPS). */
typedef struct {
  rocattach_record_header_t header;
  int32_t pid;
  union {
    uint32_t tid;
    rocattach_thread_id_t thread_id; /* the same */
  };
  int32_t domain;        /* rocattach_tracer_activity_domain_t */
  uint32_t operation_id; /* the function: rocattach_query_operation_name; a copy's
                            direction: 1 host to host, 2 host to device, 3 device to
                            host, 4 device to device, 0 unknown */
  uint64_t correlation_id;
  rocattach_record_timestamps_t timestamps;
  uint32_t source_gpu_id, target_gpu_id; /* for copies; ROCATTACH_NO_GPU: the host */
  uint64_t bytes;                        /* for copies */
  const char* name;                      /* a marker's text; NULL: none */
  uint32_t name_bytes;                   /* including the final 0; 0: none */
  uint32_t pad;
} rocattach_record_tracer_t;

/* Counters of a whole GPU over an interval. */
typedef struct {
  rocattach_record_header_t header;
  int32_t pid; /* the process through which the GPU was sampled */
  uint32_t gpu_id;
  uint32_t pass;
  uint32_t num_counters;
  rocattach_record_timestamps_t timestamps;
  /* rocattach_record_counter_t[num_counters] follow */
} rocattach_record_counters_sampler_t;

/* Delivers records [begin, end), valid until it returns. Called when a buffer is full,
 * when it is flushed, at its flush interval, when its session or a process ends. */
typedef void (*rocattach_buffer_callback_t)(const rocattach_record_header_t* begin,
                                            const rocattach_record_header_t* end,
                                            rocattach_session_id_t session_id,
                                            rocattach_buffer_id_t buffer_id);
/* Delivers one finished call or copy of a process, some milliseconds after it ended: on
 * a thread of this library, before the record is put into a buffer, one call at a time
 * for each session. The process does not wait for the callback, which gets neither
 * arguments nor unfinished calls. `record.name` is valid until the callback returns. */
typedef void (*rocattach_sync_callback_t)(rocattach_record_tracer_t record,
                                          rocattach_session_id_t session_id);
/* The session has ended without having been terminated: `status` and `detail` (valid
 * until it returns) say why. Its buffers have been flushed. Not in ROCProfiler. */
typedef void (*rocattach_session_lost_callback_t)(rocattach_session_id_t session_id,
                                                  rocattach_session_status_t status,
                                                  const char* detail);

/* ---- Filters ---- */

typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_DISPATCH_TIMESTAMPS_COLLECTION = 1,
  ROCATTACH_COUNTERS_COLLECTION = 2,
  ROCATTACH_PC_SAMPLING_COLLECTION = 3, /* FILTER_NOT_SUPPORTED */
  ROCATTACH_ATT_TRACE_COLLECTION = 4,   /* FILTER_NOT_SUPPORTED */
  ROCATTACH_SPM_COLLECTION = 5,         /* FILTER_NOT_SUPPORTED */
  ROCATTACH_API_TRACE = 6,
  ROCATTACH_COUNTERS_SAMPLER = 7
} rocattach_filter_kind_t;

typedef struct {
  const char** counters; /* names of counters and metrics */
  uint32_t counters_num;
  uint32_t sampling_rate;     /* ms between samples, at least 1 */
  uint32_t sampling_duration; /* ms; 0: until the session ends */
  uint32_t initial_delay;     /* ms */
  int32_t gpu_agent_index;    /* n-th GPU of the process, from 0; -1: all */
} rocattach_counters_sampler_parameters_t;

/* The filter's kind determines which member is valid, and data_count how many entries;
 * kinds that need none take NULL and 0, and COUNTERS_SAMPLER takes data_count 1. */
typedef union {
  const rocattach_tracer_activity_domain_t* trace_apis;
  const char** counters_names;
  const rocattach_counters_sampler_parameters_t* counters_sampler_parameters;
} rocattach_filter_data_t;

typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_FILTER_NONE = 0,
  ROCATTACH_FILTER_HSA_TRACER_API_FUNCTIONS = 1,
  ROCATTACH_FILTER_HIP_TRACER_API_FUNCTIONS = 2,
  /* "gfx90a", any part of the product's name, the number among the process's GPUs
     ("0"), its UUID or its PCI address ("0000:03:00.0") */
  ROCATTACH_FILTER_GPU_NAME = 3,
  ROCATTACH_FILTER_RANGE = 4, /* dispatches of the process, from 1, both included */
  /* Regular expressions (RE2) that match anywhere in the name, mangled or not; one that
   * starts with '!' excludes, and excluding wins. */
  ROCATTACH_FILTER_KERNEL_NAMES = 5,
  ROCATTACH_FILTER_DISPATCH_IDS = 6
} rocattach_filter_property_kind_t;

typedef struct {
  uint64_t begin, end; /* both included, from 1 */
} rocattach_dispatch_range_t;

typedef struct {
  rocattach_filter_property_kind_t kind;
  /* The members can also be accessed without `data`, as in ROCProfiler. */
  union {
    union {
      const char** names;                             /* kinds 1, 2, 3 and 5 */
      uint32_t range[2];                              /* kind 4; data_count is 2 */
      const rocattach_dispatch_range_t* dispatch_ids; /* kind 6 */
    } data;
    const char** name_regex;                        /* kind 5 */
    const char** names;                             /* kinds 1, 2, 3 and 5 */
    uint32_t range[2];                              /* kind 4 */
    const rocattach_dispatch_range_t* dispatch_ids; /* kind 6 */
  };
  uint64_t data_count;
} rocattach_filter_property_t;

/* The purpose of a session. */
typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_SESSION_MODE_PROFILING = 1, /* all filters but API_TRACE */
  ROCATTACH_SESSION_MODE_TRACING = 2    /* API_TRACE */
} rocattach_session_mode_t;

typedef enum ROCATTACH_SESSIONS_ENUM {
  ROCATTACH_BUFFER_PROPERTY_KIND_INTERVAL_FLUSH = 0
} rocattach_buffer_property_kind_t;

typedef struct {
  rocattach_buffer_property_kind_t kind;
  uint64_t value; /* INTERVAL_FLUSH: ms, 1 to 86,400,000 */
} rocattach_buffer_property_t;

/* ---- Life cycle ---- */

/* ALREADY_INITIALIZED, ERROR (no service answers, or this is a child of the process
 * that uses the library). */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_initialize(void);
/* Terminates active sessions; ids stay valid and can be used again after the next
 * initialize. NOT_INITIALIZED. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_finalize(void);

/* INVALID_ARGUMENTS (NULL), INCORRECT_REPLAY_MODE. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_create_session(
    rocattach_replay_mode_t replay_mode, rocattach_session_id_t* session_id);

/* A session with one filter and one buffer of `buffer_size` bytes. Without a
 * `buffer_callback` it has no buffer, and needs a `callback`: its start is refused with
 * MISSING_SESSION_CALLBACK otherwise. Errors as for create_session, create_filter,
 * create_buffer, set_filter_buffer and, if `callback` is given,
 * set_api_trace_sync_callback, in this order; no session is left behind. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_create_ready_session(
    rocattach_replay_mode_t replay_mode, rocattach_filter_kind_t filter_kind,
    rocattach_filter_data_t data, uint64_t data_count, size_t buffer_size,
    rocattach_buffer_callback_t buffer_callback, rocattach_session_id_t* session_id,
    rocattach_filter_property_t property, rocattach_sync_callback_t callback);

/* Adds a purpose: the session takes only filters of the modes that were added, and
 * needs one for each. Without a mode it takes all. SESSION_NOT_FOUND, INVALID_ARGUMENTS
 * (no such mode). */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_add_session_mode(
    rocattach_session_id_t session_id, rocattach_session_mode_t session_mode);

/* Adds a process that the session is for; by default it is for all current and future
 * ones. Not in ROCProfiler. SESSION_NOT_FOUND, HAS_ACTIVE_SESSION (the session is
 * active), INVALID_ARGUMENTS (no such process, or no collector in it). May be called
 * several times, to add several. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_add_session_process(rocattach_session_id_t session_id, int32_t pid);

/* SESSION_NOT_FOUND, SESSION_MISSING_FILTER (none at all, or none for a mode that was
 * added: SESSION_MODE_NOT_ADDED), SESSION_MISSING_BUFFER (a filter has neither a buffer
 * nor a synchronous callback: MISSING_SESSION_CALLBACK), HAS_ACTIVE_SESSION (this one
 * or another is active on one of the processes, or measures counters on one of the
 * GPUs), COUNTER_NOT_FOUND and COUNTER_INFORMATION_MISSING (for a GPU of the process),
 * AGENT_NOT_FOUND (no GPU matches), FILTER_NOT_SUPPORTED (the process cannot record
 * this), ERROR. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_start_session(rocattach_session_id_t session_id);
/* Stops, collects what is in flight, flushes every buffer. SESSION_NOT_FOUND,
 * SESSION_NOT_ACTIVE, ERROR (the service is gone or does not answer: the session is no
 * longer active, and records may be missing). */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_terminate_session(rocattach_session_id_t session_id);
/* Checks that the session is active and its service is there. SESSION_NOT_FOUND,
 * SESSION_NOT_ACTIVE, ERROR (it was lost, or the service does not answer). Not in
 * ROCProfiler. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_check_session(rocattach_session_id_t session_id);
/* NULL removes the callback. SESSION_NOT_FOUND. Not in ROCProfiler. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_set_session_lost_callback(
    rocattach_session_id_t session_id, rocattach_session_lost_callback_t callback);
/* Terminates the session if it is active. SESSION_NOT_FOUND. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_destroy_session(rocattach_session_id_t session_id);

/* SESSION_NOT_FOUND, INVALID_ARGUMENTS (NULL), FILTER_NOT_SUPPORTED (kind),
 * FILTER_DATA_CORRUPTED (cannot be read, empty names, bad expressions and ranges),
 * SESSION_FILTER_DATA_MISMATCH (data or a property that does not apply to the kind),
 * COUNTER_NOT_FOUND, INVALID_DOMAIN_ID, INCORRECT_DOMAIN, INVALID_OPERATION_ID (no such
 * API function); SESSION_FILTER_DATA_MISMATCH again for a filter that the session's
 * modes exclude (SESSION_MODE_FILTER_MISMATCH), and for a second filter of the kind. An
 * active session continues as it was started. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_create_filter(
    rocattach_session_id_t session_id, rocattach_filter_kind_t filter_kind,
    rocattach_filter_data_t data, uint64_t data_count, rocattach_filter_id_t* filter_id,
    rocattach_filter_property_t property);
/* Replaces the data and the property of the session's filter of this kind, for example
 * that of rocattach_create_ready_session; it keeps its id, buffer and callback. Creates
 * the filter if there is none. `filter_id` may be NULL. Errors as for create_filter,
 * and INCORRECT_SIZE (its buffer cannot hold one record any more). An active session
 * continues as it was started. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_session_set_filter(
    rocattach_session_id_t session_id, rocattach_filter_kind_t filter_kind,
    rocattach_filter_data_t data, uint64_t data_count, rocattach_filter_id_t* filter_id,
    rocattach_filter_property_t property);
/* An active session drops the filter's records from now on. SESSION_NOT_FOUND,
 * FILTER_NOT_FOUND. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_destroy_filter(
    rocattach_session_id_t session_id, rocattach_filter_id_t filter_id);

/* A new buffer, if buffer_id->value is 0 or not one of this session's; else that buffer
 * grows by the new size and gets the new callback. SESSION_NOT_FOUND, INVALID_ARGUMENTS
 * (NULL), INCORRECT_SIZE (smaller than the smallest record, or larger than 1 GiB). */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_create_buffer(
    rocattach_session_id_t session_id, rocattach_buffer_callback_t buffer_callback,
    size_t buffer_size, rocattach_buffer_id_t* buffer_id);
/* SESSION_NOT_FOUND, BUFFER_NOT_FOUND, FILTER_DATA_CORRUPTED (cannot be read),
 * SESSION_FILTER_DATA_MISMATCH (no such property), INCORRECT_FLUSH_INTERVAL. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_set_buffer_properties(
    rocattach_session_id_t session_id, rocattach_buffer_id_t buffer_id,
    rocattach_buffer_property_t* buffer_properties, uint32_t buffer_properties_count);
/* Flushes the buffer first; filters that wrote to it have none then. SESSION_NOT_FOUND,
 * BUFFER_NOT_FOUND. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_destroy_buffer(
    rocattach_session_id_t session_id, rocattach_buffer_id_t buffer_id);

/* SESSION_NOT_FOUND, BUFFER_NOT_FOUND, FILTER_NOT_FOUND, INCORRECT_SIZE (the buffer
 * cannot hold one record of this filter). */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_set_filter_buffer(
    rocattach_session_id_t session_id, rocattach_filter_id_t filter_id,
    rocattach_buffer_id_t buffer_id);
/* NULL removes the callback. SESSION_NOT_FOUND, FILTER_NOT_FOUND, FILTER_NOT_SUPPORTED
 * (not an API_TRACE filter). */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_set_api_trace_sync_callback(
    rocattach_session_id_t session_id, rocattach_filter_id_t filter_id,
    rocattach_sync_callback_t callback);

/* Also for a session that is not active. SESSION_NOT_FOUND, BUFFER_NOT_FOUND,
 * CORRUPTED_SESSION_BUFFER (records in flight could not be collected). */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_flush_data(
    rocattach_session_id_t session_id, rocattach_buffer_id_t buffer_id);
/* Number of records lost since the last start: a buffer was full or missing, or the
 * program did not read what the service sent. Not in ROCProfiler.
 * SESSION_NOT_FOUND, INVALID_ARGUMENTS (NULL). */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_get_dropped_records(rocattach_session_id_t session_id, uint64_t* records);
/* Inside a callback, for the records that it was given; `next` becomes `end` after the
 * last one. SESSION_NOT_FOUND, BUFFER_NOT_FOUND, RECORD_CORRUPTED. */
ROCATTACH_SESSIONS_API rocattach_session_status_t rocattach_next_record(
    const rocattach_record_header_t* record, const rocattach_record_header_t** next,
    rocattach_session_id_t session_id, rocattach_buffer_id_t buffer_id);

/* ---- Names. `pid` is the one in a record of the session. Names are known as long as
 * the session exists, also after the process or the service has ended. Texts are valid
 * until the session is destroyed. Not in ROCProfiler. ---- */

typedef struct {
  uint32_t gpu_id;          /* as in records */
  uint32_t compute_units;   /* 0: not known */
  const char* name;         /* "gfx90a" */
  const char* product_name; /* "" if not known, as below */
  const char* uuid;         /* "GPU-…" */
  const char* pci;          /* "0000:03:00.0" */
} rocattach_agent_t;

/* SESSION_NOT_FOUND, INVALID_ARGUMENTS (NULL, or no record is of this process),
 * KERNEL_NOT_FOUND. The name is demangled, as `rocattach report` prints it. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_query_kernel_name(rocattach_session_id_t session_id, int32_t pid,
                            uint32_t kernel_id, const char** name);
/* "hipMalloc"; the direction of a copy: "host to device". SESSION_NOT_FOUND,
 * INVALID_ARGUMENTS (as above), INVALID_DOMAIN_ID, INVALID_OPERATION_ID. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_query_operation_name(rocattach_session_id_t session_id, int32_t pid,
                               rocattach_tracer_activity_domain_t domain,
                               uint32_t operation_id, const char** name);
/* SESSION_NOT_FOUND, INVALID_ARGUMENTS (as above), AGENT_NOT_FOUND. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_query_agent(rocattach_session_id_t session_id, int32_t pid, uint32_t gpu_id,
                      rocattach_agent_t* agent);

/* ---- Device profiling: counters of a GPU for all processes that use it. These calls
 * do not require initialize, as in ROCProfiler. ---- */

typedef struct {
  double value;
} rocattach_counter_value_t;
typedef struct {
  char metric_name[64];
  rocattach_counter_value_t value; /* NaN: not available */
} rocattach_device_profile_metric_t;

/* INVALID_ARGUMENTS, AGENT_NOT_FOUND, COUNTER_NOT_FOUND, COUNTER_INFORMATION_MISSING;
 * counters that do not fit one pass are INVALID_ARGUMENTS. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_device_profiling_session_create(const char** counter_names,
                                          uint64_t num_counters,
                                          rocattach_session_id_t* session_id,
                                          int cpu_index, int gpu_index);
/* SESSION_NOT_FOUND, HAS_ACTIVE_SESSION (the GPU's counters are in use), ERROR. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_device_profiling_session_start(rocattach_session_id_t session_id);
/* Writes one entry per counter of the create call. SESSION_NOT_FOUND,
 * INVALID_ARGUMENTS, SESSION_NOT_ACTIVE, ERROR. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_device_profiling_session_poll(rocattach_session_id_t session_id,
                                        rocattach_device_profile_metric_t* data);
/* SESSION_NOT_FOUND, SESSION_NOT_ACTIVE. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_device_profiling_session_stop(rocattach_session_id_t session_id);
/* Stops it first if needed. SESSION_NOT_FOUND. */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_device_profiling_session_destroy(rocattach_session_id_t session_id);

/* ---- Others ---- */

/* A description of a status; never NULL. */
ROCATTACH_SESSIONS_API const char* rocattach_error_str(
    rocattach_session_status_t status);
/* Details of the calling thread's last failed call: a sentence with the arguments. Not
 * in ROCProfiler. Never NULL; valid until the thread's next call. */
ROCATTACH_SESSIONS_API const char* rocattach_session_error_detail(void);
/* CLOCK_BOOTTIME nanoseconds. INVALID_ARGUMENTS (NULL). */
ROCATTACH_SESSIONS_API rocattach_session_status_t
rocattach_get_timestamp(uint64_t* timestamp);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ROCATTACH_SESSIONS_H_ */
