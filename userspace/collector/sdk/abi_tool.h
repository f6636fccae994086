/* How a tool and librocprofiler-sdk.so.1 find each other: what a tool exports and what
 * the SDK calls. In our own declarations; see abi.h.
 */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_TOOL_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_TOOL_H_

#include "userspace/collector/sdk/abi_base.h"

/* A tool, as the SDK knows it. The tool sets `name`, which must live as long as it. */
struct rocattach_sdk_client_id {
  size_t size;
  const char* name;
  uint32_t handle; /* const in the ABI */
};
ROCATTACH_SDK_SIZE(rocattach_sdk_client_id, 24);

/* Ends the client early: its contexts stop, its finalize runs now instead of at exit.
 */
typedef void (*rocattach_sdk_client_finalize_fn)(struct rocattach_sdk_client_id);
/* Creates contexts, buffers and services: the only time when that is possible.
 * Non-zero: the SDK drops them all. Must not call hsa_init or HIP: their locks are
 * held. */
typedef int (*rocattach_sdk_tool_initialize_fn)(
    rocattach_sdk_client_finalize_fn finalize, void* tool_data);
/* At exit, once; the client's contexts still exist. */
typedef void (*rocattach_sdk_tool_finalize_fn)(void* tool_data);

/* The result of rocprofiler_configure; lives as long as the process. */
struct rocattach_sdk_configure_result {
  size_t size; /* sizeof(struct) */
  rocattach_sdk_tool_initialize_fn initialize;
  rocattach_sdk_tool_finalize_fn finalize;
  void* tool_data;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_configure_result, 32);
ROCATTACH_SDK_OFFSET(rocattach_sdk_configure_result, tool_data, 24);

/* The tool exports "rocprofiler_configure". version: 10000 * major + 100 * minor +
 * patch. priority: number of tools configured before. NULL declines. */
typedef struct rocattach_sdk_configure_result* (*rocattach_sdk_configure_fn)(
    uint32_t version, const char* runtime_version, uint32_t priority,
    struct rocattach_sdk_client_id* client);
#define ROCATTACH_SDK_CONFIGURE "rocprofiler_configure"

/* The SDK passes NULL for it. */
typedef void (*rocattach_sdk_client_detach_fn)(struct rocattach_sdk_client_id);
/* After the tables are in place, and at each attach after a detach: start the contexts.
 * The ids are all contexts of this client. The return value is ignored. */
typedef int (*rocattach_sdk_tool_attach_fn)(rocattach_sdk_client_detach_fn detach,
                                            rocattach_sdk_context_id* contexts,
                                            uint64_t context_count, void* tool_data);
/* The SDK has stopped the contexts and waited for work in progress: flush the buffers.
 */
typedef void (*rocattach_sdk_tool_detach_fn)(void* tool_data);

/* The result of rocprofiler_configure_attach (SDK 1.2 and later). */
struct rocattach_sdk_configure_attach_result {
  size_t size;
  rocattach_sdk_tool_attach_fn tool_attach;
  rocattach_sdk_tool_detach_fn tool_detach;
  void* tool_data;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_configure_attach_result, 32);

/* The tool may export "rocprofiler_configure_attach"; called after a
 * rocprofiler_configure that did not decline. */
typedef struct rocattach_sdk_configure_attach_result* (
    *rocattach_sdk_configure_attach_fn)(uint32_t version, const char* runtime_version,
                                        uint32_t priority,
                                        struct rocattach_sdk_client_id* client);
#define ROCATTACH_SDK_CONFIGURE_ATTACH "rocprofiler_configure_attach"

/* Called for each table of a library that registers. lib_instance counts the library's
 * earlier registrations. For HSA tables[0] is the HsaApiTable, already wrapped. */
typedef void (*rocattach_sdk_intercept_library_cb)(int32_t table, uint64_t lib_version,
                                                   uint64_t lib_instance, void** tables,
                                                   uint64_t table_count,
                                                   void* user_data);
typedef void (*rocattach_sdk_internal_thread_cb)(int32_t library, void* user_data);

/* The SDK's side, called by rocprofiler-register: "rocprofiler_set_api_table",
 * "rocprofiler_load_attachment_tool" (newest), "rocprofiler_attach" and
 * "rocprofiler_detach"; 0 is success. */
typedef int (*rocattach_sdk_set_api_table_fn)(const char* name, uint64_t lib_version,
                                              uint64_t lib_instance, void** tables,
                                              uint64_t table_count);
typedef int (*rocattach_sdk_load_attachment_tool_fn)(const char* path);
typedef int (*rocattach_sdk_attach_fn)(void);
typedef int (*rocattach_sdk_detach_fn)(void);

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_TOOL_H_ */
