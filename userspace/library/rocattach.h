/* Attaching to running GPU processes from a program of your own: the functions, values
 * and meanings of librocprofiler-sdk-rocattach.
 *
 * The library is librocattach (pkg-config: rocattach; CMake: rocattach::rocattach). It
 * starts the program `rocattach` beside itself for each recording and ends that
 * recording at the detach call, or when the calling process ends: then the targets run
 * on, and what was recorded is in the file. The targets need no preparation, unless a
 * tool library is named.
 *
 * The environment of the calling process determines what is recorded and where, at
 * each attach call:
 *   ROCPROF_OUTPUT_PATH            directory of the recording (default: the working
 *                                  directory)
 *   ROCPROF_OUTPUT_FILE_NAME       its name, without ".rwa" (default: host and time)
 *   ROCPROF_KERNEL_TRACE, ROCPROF_MEMORY_COPY_TRACE
 *                                  dispatches and copies; both are always recorded
 *   ROCPROF_HIP_RUNTIME_API_TRACE, ROCPROF_HIP_COMPILER_API_TRACE,
 *   ROCPROF_HSA_CORE_API_TRACE and its siblings, ROCPROF_MARKER_API_TRACE,
 *   ROCPROF_RCCL_API_TRACE         calls of these APIs, if the process can provide them
 *   ROCPROF_MEMORY_ALLOCATION_TRACE, ROCPROF_SCRATCH_MEMORY_TRACE
 *                                  memory, if the process can provide it
 *   ROCPROF_COUNTER_COLLECTION, ROCPROF_COUNTERS ("pmc: NAME NAME"),
 *   ROCPROF_COUNTER_GROUPS (the same, one group a line)
 *                                  hardware counters, if the process can provide them
 *   ROCPROF_KERNEL_FILTER_INCLUDE_REGEX, ROCPROF_KERNEL_FILTER_EXCLUDE_REGEX,
 *   ROCPROF_KERNEL_FILTER_RANGE    kernels on which these are measured
 *   ROCPROF_COLLECTION_PERIOD      "DELAY:DURATION:REPEAT" in nanoseconds, several
 *                                  separated by semicolons: nothing is recorded outside
 *                                  of these periods
 *   ROCPROF_OUTPUT_FORMAT          csv, json, pftrace or rocpd, or several of them: what
 *                                  the recording is converted to at the detach
 *   ROCPROF_ATTACH_TOOL_LIBRARY    a tool of rocprofiler-sdk, or several separated by
 *                                  colons, that is attached instead of recording, to a
 *                                  process that was started with ROCP_TOOL_ATTACH=1; it
 *                                  gets the variables ROCPROF_… and ROCP_… of the
 *                                  calling process
 *   ROCATTACH_DURATION_MSEC        a recording ends by itself after this time, whatever
 *                                  its processes answer; 0 (default): at the detach
 *   ROCATTACH_LOG_LEVEL            what is printed on standard error: fatal, error,
 *                                  warning (default), info or trace
 * They are ignored in set-user-ID programs. `rocattach` needs root, or the capabilities
 * that `rocattach doctor` lists.
 *
 * All functions may be called from any thread, at the same time for different
 * processes. They do not touch signals, wait calls or descriptors of the program. A
 * session belongs to the process that attached: a child created with fork() has none.
 */
#ifndef ROCATTACH_ROCATTACH_H_
#define ROCATTACH_ROCATTACH_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define ROCATTACH_API __attribute__((visibility("default")))
#else
#define ROCATTACH_API
#endif

/* A number outside the enumeration may be passed and is answered with NULL. In C++
 * that needs a fixed underlying type; C needs none. */
#ifdef __cplusplus
#define ROCATTACH_ENUM : int
#else
#define ROCATTACH_ENUM
#endif

/* rocattach_sessions.h defines ROCProfiler's statuses under these names. */
#ifdef ROCATTACH_SESSIONS_H_
#undef rocattach_status_t
#undef ROCATTACH_STATUS_SUCCESS
#undef ROCATTACH_STATUS_ERROR
#endif

typedef enum ROCATTACH_ENUM {
  ROCATTACH_STATUS_SUCCESS = 0,
  /* Any other reason, such as a process without the HSA runtime. */
  ROCATTACH_STATUS_ERROR = 1,
  ROCATTACH_STATUS_ERROR_INVALID_ARGUMENT = 2,
  /* This process, or what the environment requests, is not supported. */
  ROCATTACH_STATUS_ERROR_NOT_SUPPORTED = 3,
  /* The process could not be stopped, read or written. */
  ROCATTACH_STATUS_ERROR_PTRACE_ERROR = 4,
  /* The caller lacks privileges, or another profiler or debugger is attached. */
  ROCATTACH_STATUS_ERROR_PTRACE_OPERATION_NOT_PERMITTED = 5,
  /* There is no such process, or it ended meanwhile. */
  ROCATTACH_STATUS_ERROR_PTRACE_PROCESS_NOT_FOUND = 6,
  /* The number of values; never returned. */
  ROCATTACH_STATUS_LAST = 7
} rocattach_status_t;

typedef struct rocattach_version_triplet_t {
  uint32_t major;
  uint32_t minor;
  uint32_t patch;
} rocattach_version_triplet_t;

/* Attaches to the process `pid` and records it. Returns when it is attached and what
 * was requested is recorded, after about a second, or when that is known to be
 * impossible; after a minute at most.
 *   INVALID_ARGUMENT       `pid` is not positive, is the calling process, a thread, a
 *                          kernel thread or a zombie; it is attached already; a
 *                          variable of the environment makes no sense; the process
 *                          cannot load the tool library
 *   others                 as above
 * Attaching again after a detach is possible any number of times. Each attach writes a
 * new file: a name that exists gets the suffix -1, -2 … */
ROCATTACH_API rocattach_status_t rocattach_attach(int pid);

/* The same for `pid` and all its descendants, in one recording. If `pid` itself cannot
 * be attached to, its status is returned, and no process remains attached. Descendants
 * that do not use a GPU yet, and those that are started later, are attached to when
 * they do; if such an attach fails, that is only logged. If another descendant fails,
 * its status is returned (the last one, if several), and the session exists. */
ROCATTACH_API rocattach_status_t rocattach_attach_tree(int pid);

/* Ends the recording of `pid` and returns when the file is complete; a `pid` of 0 ends
 * all recordings of this program and always succeeds. The process runs on; if it has
 * ended meanwhile, that is no error. Of a tree, only the root can be given: that ends
 * the whole recording.
 *   INVALID_ARGUMENT       there is no session of `pid`
 *   NOT_SUPPORTED          `pid` is a descendant in a tree's session
 *   ERROR                  the file is incomplete, for example because the disk is full
 */
ROCATTACH_API rocattach_status_t rocattach_detach(int pid);

/* Ends the recording that rocattach_attach_tree(pid) started; 0 as above.
 *   INVALID_ARGUMENT       there is none */
ROCATTACH_API rocattach_status_t rocattach_detach_tree(int pid);

/* The version of this library. Each pointer may be NULL. Always succeeds. */
ROCATTACH_API rocattach_status_t rocattach_get_version(uint32_t* major, uint32_t* minor,
                                                       uint32_t* patch);

/* The same. INVALID_ARGUMENT if `info` is NULL. */
ROCATTACH_API rocattach_status_t
rocattach_get_version_triplet(rocattach_version_triplet_t* info);

/* The name of a value, such as "ROCATTACH_STATUS_SUCCESS", and a sentence about it.
 * NULL for a number that is not a status. The texts are static: do not free them. */
ROCATTACH_API const char* rocattach_get_status_name(rocattach_status_t status);
ROCATTACH_API const char* rocattach_get_status_string(rocattach_status_t status);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* ROCATTACH_ROCATTACH_H_ */
