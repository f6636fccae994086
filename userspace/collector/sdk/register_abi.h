/* The C ABI of librocprofiler-register.so.0, in our own declarations.
 *
 * ROCm's runtimes pass their API tables to this library, which looks for profiling
 * tools and passes the tables on to rocprofiler-sdk. Nothing here is linked: every
 * function is looked up by name at run time. Names and values are those of ROCm 6.2 to
 * 7.x and of the attach interface that followed; what is newer than ROCm 7.1 is marked.
 */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_REGISTER_ABI_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_REGISTER_ABI_H_

#include <stddef.h>
#include <stdint.h>

/* Result of every function below, 4 bytes (in the lower half of the register only).
 */
enum rocattach_register_status {
  ROCATTACH_REGISTER_SUCCESS = 0,
  ROCATTACH_REGISTER_NO_TOOLS = 1, /* recorded, but no tool or no SDK was found */
  ROCATTACH_REGISTER_DEADLOCK = 2, /* called from within a call of this library */
  ROCATTACH_REGISTER_BAD_API_TABLE_LENGTH = 3,
  ROCATTACH_REGISTER_UNSUPPORTED_API = 4, /* not one of the names below */
  ROCATTACH_REGISTER_INVALID_API_ADDRESS =
      5,                                    /* secure mode: import function elsewhere */
  ROCATTACH_REGISTER_ROCPROFILER_ERROR = 6, /* the SDK returned non-zero */
  ROCATTACH_REGISTER_EXCESS_API_INSTANCES = 7,
  ROCATTACH_REGISTER_INVALID_ARGUMENT = 8,         /* with attach: after ROCm 7.1 */
  ROCATTACH_REGISTER_ATTACHMENT_NOT_AVAILABLE = 9, /* with attach: after ROCm 7.1 */
};

/* The libraries that may register. The last two are newer than ROCm 7.2. */
#define ROCATTACH_REGISTER_NAME_HSA "hsa"
#define ROCATTACH_REGISTER_NAME_HIP "hip"
#define ROCATTACH_REGISTER_NAME_ROCTX "roctx"
#define ROCATTACH_REGISTER_NAME_HIP_COMPILER "hip_compiler"
#define ROCATTACH_REGISTER_NAME_RCCL "rccl"
#define ROCATTACH_REGISTER_NAME_ROCDECODE "rocdecode"
#define ROCATTACH_REGISTER_NAME_ROCJPEG "rocjpeg"
#define ROCATTACH_REGISTER_NAME_ATTACH "rocattach"
#define ROCATTACH_REGISTER_NAME_HIPFILE "hipFile"
#define ROCATTACH_REGISTER_NAME_ROCSHMEM "rocshmem"

/* Returned through the last argument of a registration. */
struct rocattach_register_id {
  uint64_t handle;
};

/* One registered library, as rocprofiler_register_iterate_registration_info shows it.
 */
struct rocattach_register_info {
  size_t size; /* of this struct */
  const char* common_name;
  uint32_t lib_version; /* 10000 * major + 100 * minor + patch */
  uint64_t api_table_length;
};

/* The library's version; in secure mode its address proves which library the caller is
 * in. */
typedef uint32_t (*rocattach_register_import_fn)(void);
/* Non-zero stops the iteration. */
typedef int (*rocattach_register_info_cb)(struct rocattach_register_info* info,
                                          void* data);

/* "rocprofiler_register_library_api_table": ROCr calls it at the end of hsa_init's
 * first call with name "hsa" and one table, the HsaApiTable. */
typedef int32_t (*rocattach_register_library_api_table_fn)(
    const char* name, rocattach_register_import_fn import_func, uint32_t lib_version,
    void** api_tables, uint64_t api_table_length, struct rocattach_register_id* id);
/* "rocprofiler_register_error_string" */
typedef const char* (*rocattach_register_error_string_fn)(int32_t status);
/* "rocprofiler_register_iterate_registration_info" */
typedef int32_t (*rocattach_register_iterate_fn)(rocattach_register_info_cb callback,
                                                 void* data);
/* "rocprofiler_register_invoke_nonpropagated_registrations": passes to the SDK the
 * tables that it has not seen (HIP's, when HIP registered before any tool was visible).
 * "rocprofiler_register_invoke_all_registrations": passes all of them again. Never from
 * within a registration: DEADLOCK. */
typedef int32_t (*rocattach_register_invoke_fn)(void);
/* "rocprofiler_register_attach" (not in the public header): loads the tool and calls
 * its attach function. The buffer is a native uint32_t number of pairs, then
 * NUL-terminated names and values in turn, without padding; NULL is allowed. */
typedef int32_t (*rocattach_register_attach_fn)(const char* environment_buffer,
                                                const char* tool_lib_path);
/* "rocprofiler_register_detach" (not in the public header) */
typedef int32_t (*rocattach_register_detach_fn)(void);

#ifdef __cplusplus
static_assert(sizeof(struct rocattach_register_info) == 32, "ABI");
static_assert(offsetof(struct rocattach_register_info, api_table_length) == 24, "ABI");
static_assert(sizeof(struct rocattach_register_id) == 8, "ABI");
#else
_Static_assert(sizeof(struct rocattach_register_info) == 32, "ABI");
_Static_assert(offsetof(struct rocattach_register_info, api_table_length) == 24, "ABI");
_Static_assert(sizeof(struct rocattach_register_id) == 8, "ABI");
#endif

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SDK_REGISTER_ABI_H_ */
