/* The part of the C ABI of librocprofiler-sdk.so.1 that the collector uses.
 *
 * These are our own declarations: the collector is loaded into processes that may have
 * no SDK at all, so that nothing may be linked, and it must work with every SDK since
 * ROCm 7.0, so that no single version's headers fit. Names of types are ours; layouts,
 * values and names of functions are the SDK's. Where installed headers are found, a
 * test compiles both and compares (tests/unit/simrocm/layout_test.cc).
 *
 *   abi_base.h          ids, status codes, enumerations
 *   abi_tool.h          what a tool exports, how it is attached and detached
 *   abi_records.h       agents, buffers, tracing records, code objects
 *   abi_counters.h      counters, dispatch and device counting
 *   register_abi.h      rocprofiler-register
 *
 * Functions are looked up with dlsym: ROCATTACH_SDK_FOR_EACH_FUNCTION(X) calls X(field,
 * symbol, pointer type). Any of them may be missing.
 *
 * Versions: everything here is SDK 1.0 (ROCm 7.0) and later, as given by `version` of
 * rocprofiler_configure (10000 and more). The 0.x SDKs of ROCm 6.2 to 6.4 have other
 * names for the counting services ("profile" instead of "counter" config) and shorter
 * records: decline them, or declare them separately.
 *
 * Rules of the SDK that the types do not show:
 * - Contexts, buffers, services and callback threads can only be created inside the
 *   tool's initialize function; later calls return CONFIGURATION_LOCKED. Counter
 *   configs, starting, stopping and flushing are possible at any time until
 *   finalization.
 * - A context may be started before HSA is initialised: its services then begin with
 *   the first table. Device counting returns HSA_NOT_LOADED from start in that case,
 *   but begins nevertheless once the table is there.
 * - Two active contexts with dispatch counting conflict: CONTEXT_CONFLICT. Dispatch and
 *   device counting in one context: AGENT_DISPATCH_CONFLICT.
 * - A buffer's size and watermark count the bytes of payloads. Flushing waits for the
 *   callback thread; never do it on that thread. */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_H_

#include "userspace/collector/sdk/abi_base.h"
#include "userspace/collector/sdk/abi_counters.h"
#include "userspace/collector/sdk/abi_records.h"
#include "userspace/collector/sdk/abi_tool.h"
#include "userspace/collector/sdk/register_abi.h"

/* Versions and names. Version parts may be NULL. */
typedef rocattach_sdk_status (*rocattach_sdk_get_version_fn)(uint32_t* major,
                                                             uint32_t* minor,
                                                             uint32_t* patch);
typedef const char* (*rocattach_sdk_status_text_fn)(rocattach_sdk_status status);
typedef rocattach_sdk_status (*rocattach_sdk_get_timestamp_fn)(
    rocattach_sdk_timestamp* now);
/* 0 not initialised (finalised), 1 done, -1 in progress. */
typedef rocattach_sdk_status (*rocattach_sdk_is_state_fn)(int* status);
/* Makes `configure` a client now. CONFIGURATION_LOCKED when that is not possible. SDK
 * 1.3 leaves two ROCPROFILER_REGISTER_* variables in the environment for children. */
typedef rocattach_sdk_status (*rocattach_sdk_force_configure_fn)(
    rocattach_sdk_configure_fn configure);

/* Contexts. The id must be zero before create. */
typedef rocattach_sdk_status (*rocattach_sdk_create_context_fn)(
    rocattach_sdk_context_id* context);
typedef rocattach_sdk_status (*rocattach_sdk_context_fn)(
    rocattach_sdk_context_id context);
typedef rocattach_sdk_status (*rocattach_sdk_context_state_fn)(
    rocattach_sdk_context_id context, int* state);

/* Buffers. `watermark` bytes of payload make the SDK flush by itself. */
typedef rocattach_sdk_status (*rocattach_sdk_create_buffer_fn)(
    rocattach_sdk_context_id context, size_t size, size_t watermark, int32_t policy,
    rocattach_sdk_buffer_cb callback, void* callback_data,
    rocattach_sdk_buffer_id* buffer);
typedef rocattach_sdk_status (*rocattach_sdk_buffer_fn)(rocattach_sdk_buffer_id buffer);
typedef rocattach_sdk_status (*rocattach_sdk_create_callback_thread_fn)(
    rocattach_sdk_callback_thread* thread);
typedef rocattach_sdk_status (*rocattach_sdk_assign_callback_thread_fn)(
    rocattach_sdk_buffer_id buffer, rocattach_sdk_callback_thread thread);
typedef rocattach_sdk_status (*rocattach_sdk_at_internal_thread_create_fn)(
    rocattach_sdk_internal_thread_cb before, rocattach_sdk_internal_thread_cb after,
    int libraries, void* data);

/* Tracing; operations NULL: all. */
typedef rocattach_sdk_status (*rocattach_sdk_configure_buffer_tracing_fn)(
    rocattach_sdk_context_id context, int32_t kind,
    const rocattach_sdk_operation* operations, size_t operation_count,
    rocattach_sdk_buffer_id buffer);
typedef rocattach_sdk_status (*rocattach_sdk_configure_callback_tracing_fn)(
    rocattach_sdk_context_id context, int32_t kind,
    const rocattach_sdk_operation* operations, size_t operation_count,
    rocattach_sdk_callback_tracing_cb callback, void* callback_data);
/* Static strings; `length` without the NUL. Either may be NULL. */
typedef rocattach_sdk_status (*rocattach_sdk_kind_name_fn)(int32_t kind,
                                                           const char** name,
                                                           uint64_t* length);
typedef rocattach_sdk_status (*rocattach_sdk_operation_name_fn)(
    int32_t kind, rocattach_sdk_operation operation, const char** name,
    uint64_t* length);
/* Called for each argument of a traced call; `value` is the argument as text. A result
 * other than 0 ends the iteration. */
typedef int (*rocattach_sdk_argument_cb)(int32_t kind,
                                         rocattach_sdk_operation operation,
                                         uint32_t number, const void* address,
                                         int32_t indirections, const char* type,
                                         const char* name, const char* value,
                                         int32_t dereferenced, void* data);
/* In a callback of a call. Pointers are followed at most max_dereferences times. */
typedef rocattach_sdk_status (*rocattach_sdk_iterate_arguments_fn)(
    struct rocattach_sdk_callback_record record, rocattach_sdk_argument_cb callback,
    int32_t max_dereferences, void* user_data);
/* Called on the thread that submits, before the operation: *external becomes the
 * external correlation id of its record. Returns 0: it has been set. */
typedef int (*rocattach_sdk_correlation_cb)(
    rocattach_sdk_thread_id thread, rocattach_sdk_context_id context, int32_t kind,
    rocattach_sdk_operation operation, uint64_t internal,
    union rocattach_sdk_user_data* external, void* data);
/* `kinds`: values of enum rocattach_sdk_correlation_request. */
typedef rocattach_sdk_status (*rocattach_sdk_configure_correlation_fn)(
    rocattach_sdk_context_id context, const int32_t* kinds, size_t kind_count,
    rocattach_sdk_correlation_cb callback, void* data);
/* `tables`: bits of enum rocattach_sdk_intercept_table. */
typedef rocattach_sdk_status (*rocattach_sdk_at_intercept_table_fn)(
    rocattach_sdk_intercept_library_cb callback, int tables, void* data);

/* Agents. `agent_size`: ROCATTACH_SDK_AGENT_BASE_BYTES. */
typedef rocattach_sdk_status (*rocattach_sdk_query_agents_fn)(
    int32_t version, rocattach_sdk_agents_cb callback, size_t agent_size,
    void* user_data);

/* Counters. */
typedef rocattach_sdk_status (*rocattach_sdk_iterate_counters_fn)(
    rocattach_sdk_agent_id agent, rocattach_sdk_counters_cb callback, void* user_data);
typedef rocattach_sdk_status (*rocattach_sdk_query_counter_info_fn)(
    rocattach_sdk_counter_id counter, int32_t version, void* info);
typedef rocattach_sdk_status (*rocattach_sdk_record_counter_fn)(
    rocattach_sdk_instance_id id, rocattach_sdk_counter_id* counter);
typedef rocattach_sdk_status (*rocattach_sdk_record_position_fn)(
    rocattach_sdk_instance_id id, rocattach_sdk_dimension_id dimension,
    size_t* position);
/* *config in: 0, or a config whose counters are taken over; out: the new one. */
typedef rocattach_sdk_status (*rocattach_sdk_create_counter_config_fn)(
    rocattach_sdk_agent_id agent, rocattach_sdk_counter_id* counters, size_t count,
    rocattach_sdk_counter_config_id* config);
typedef rocattach_sdk_status (*rocattach_sdk_destroy_counter_config_fn)(
    rocattach_sdk_counter_config_id config);
typedef rocattach_sdk_status (*rocattach_sdk_create_counter_fn)(
    const char* name, size_t name_length, const char* expression,
    size_t expression_length, const char* description, size_t description_length,
    rocattach_sdk_agent_id agent, rocattach_sdk_counter_id* counter);
/* YAML in addition to, or instead of, the definitions in the SDK's own file, which is
 * read when counters are first looked up; refused from then on. Definitions of an
 * earlier call are replaced. */
typedef rocattach_sdk_status (*rocattach_sdk_load_counter_definition_fn)(
    const char* yaml, size_t bytes, int32_t flags);

/* Counting services. */
typedef rocattach_sdk_status (*rocattach_sdk_buffer_dispatch_counting_fn)(
    rocattach_sdk_context_id context, rocattach_sdk_buffer_id buffer,
    rocattach_sdk_dispatch_cb callback, void* callback_data);
typedef rocattach_sdk_status (*rocattach_sdk_callback_dispatch_counting_fn)(
    rocattach_sdk_context_id context, rocattach_sdk_dispatch_cb dispatch_callback,
    void* dispatch_data, rocattach_sdk_dispatch_record_cb record_callback,
    void* record_data);
/* Buffer {0}: values only through sample's output. */
typedef rocattach_sdk_status (*rocattach_sdk_device_counting_fn)(
    rocattach_sdk_context_id context, rocattach_sdk_buffer_id buffer,
    rocattach_sdk_agent_id agent, rocattach_sdk_device_counting_cb callback,
    void* user_data);
/* records NULL: into the buffer. Else *count is the room, then the number written (or,
 * with OUT_OF_RESOURCES, the number needed); not together with FLAG_ASYNC. */
typedef rocattach_sdk_status (*rocattach_sdk_sample_device_counting_fn)(
    rocattach_sdk_context_id context, union rocattach_sdk_user_data user_data,
    int32_t flags, struct rocattach_sdk_counter_record* records, size_t* count);

#define ROCATTACH_SDK_FOR_EACH_FUNCTION(X)                                             \
  X(get_version, "rocprofiler_get_version", rocattach_sdk_get_version_fn)              \
  X(get_status_name, "rocprofiler_get_status_name", rocattach_sdk_status_text_fn)      \
  X(get_status_string, "rocprofiler_get_status_string", rocattach_sdk_status_text_fn)  \
  X(get_timestamp, "rocprofiler_get_timestamp", rocattach_sdk_get_timestamp_fn)        \
  X(is_initialized, "rocprofiler_is_initialized", rocattach_sdk_is_state_fn)           \
  X(is_finalized, "rocprofiler_is_finalized", rocattach_sdk_is_state_fn)               \
  X(force_configure, "rocprofiler_force_configure", rocattach_sdk_force_configure_fn)  \
  X(create_context, "rocprofiler_create_context", rocattach_sdk_create_context_fn)     \
  X(start_context, "rocprofiler_start_context", rocattach_sdk_context_fn)              \
  X(stop_context, "rocprofiler_stop_context", rocattach_sdk_context_fn)                \
  X(context_is_active, "rocprofiler_context_is_active",                                \
    rocattach_sdk_context_state_fn)                                                    \
  X(context_is_valid, "rocprofiler_context_is_valid", rocattach_sdk_context_state_fn)  \
  X(create_buffer, "rocprofiler_create_buffer", rocattach_sdk_create_buffer_fn)        \
  X(destroy_buffer, "rocprofiler_destroy_buffer", rocattach_sdk_buffer_fn)             \
  X(flush_buffer, "rocprofiler_flush_buffer", rocattach_sdk_buffer_fn)                 \
  X(create_callback_thread, "rocprofiler_create_callback_thread",                      \
    rocattach_sdk_create_callback_thread_fn)                                           \
  X(assign_callback_thread, "rocprofiler_assign_callback_thread",                      \
    rocattach_sdk_assign_callback_thread_fn)                                           \
  X(at_internal_thread_create, "rocprofiler_at_internal_thread_create",                \
    rocattach_sdk_at_internal_thread_create_fn)                                        \
  X(configure_buffer_tracing, "rocprofiler_configure_buffer_tracing_service",          \
    rocattach_sdk_configure_buffer_tracing_fn)                                         \
  X(configure_callback_tracing, "rocprofiler_configure_callback_tracing_service",      \
    rocattach_sdk_configure_callback_tracing_fn)                                       \
  X(buffer_kind_name, "rocprofiler_query_buffer_tracing_kind_name",                    \
    rocattach_sdk_kind_name_fn)                                                        \
  X(buffer_operation_name, "rocprofiler_query_buffer_tracing_kind_operation_name",     \
    rocattach_sdk_operation_name_fn)                                                   \
  X(callback_operation_name, "rocprofiler_query_callback_tracing_kind_operation_name", \
    rocattach_sdk_operation_name_fn)                                                   \
  X(iterate_arguments, "rocprofiler_iterate_callback_tracing_kind_operation_args",     \
    rocattach_sdk_iterate_arguments_fn)                                                \
  X(configure_correlation,                                                             \
    "rocprofiler_configure_external_correlation_id_request_service",                   \
    rocattach_sdk_configure_correlation_fn)                                            \
  X(at_intercept_table, "rocprofiler_at_intercept_table_registration",                 \
    rocattach_sdk_at_intercept_table_fn)                                               \
  X(query_available_agents, "rocprofiler_query_available_agents",                      \
    rocattach_sdk_query_agents_fn)                                                     \
  X(iterate_agent_supported_counters, "rocprofiler_iterate_agent_supported_counters",  \
    rocattach_sdk_iterate_counters_fn)                                                 \
  X(query_counter_info, "rocprofiler_query_counter_info",                              \
    rocattach_sdk_query_counter_info_fn)                                               \
  X(query_record_counter_id, "rocprofiler_query_record_counter_id",                    \
    rocattach_sdk_record_counter_fn)                                                   \
  X(query_record_dimension_position, "rocprofiler_query_record_dimension_position",    \
    rocattach_sdk_record_position_fn)                                                  \
  X(create_counter_config, "rocprofiler_create_counter_config",                        \
    rocattach_sdk_create_counter_config_fn)                                            \
  X(destroy_counter_config, "rocprofiler_destroy_counter_config",                      \
    rocattach_sdk_destroy_counter_config_fn)                                           \
  X(create_counter, "rocprofiler_create_counter", rocattach_sdk_create_counter_fn)     \
  X(load_counter_definition, "rocprofiler_load_counter_definition",                    \
    rocattach_sdk_load_counter_definition_fn)                                          \
  X(configure_buffer_dispatch_counting,                                                \
    "rocprofiler_configure_buffer_dispatch_counting_service",                          \
    rocattach_sdk_buffer_dispatch_counting_fn)                                         \
  X(configure_callback_dispatch_counting,                                              \
    "rocprofiler_configure_callback_dispatch_counting_service",                        \
    rocattach_sdk_callback_dispatch_counting_fn)                                       \
  X(configure_device_counting, "rocprofiler_configure_device_counting_service",        \
    rocattach_sdk_device_counting_fn)                                                  \
  X(sample_device_counting, "rocprofiler_sample_device_counting_service",              \
    rocattach_sdk_sample_device_counting_fn)

/* One pointer for each function; NULL where the SDK lacks it. */
struct rocattach_sdk_functions {
#define ROCATTACH_SDK_FIELD(field, symbol, type) type field;
  ROCATTACH_SDK_FOR_EACH_FUNCTION(ROCATTACH_SDK_FIELD)
#undef ROCATTACH_SDK_FIELD
};

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_H_ */
