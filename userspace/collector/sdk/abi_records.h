/* Agents and what librocprofiler-sdk.so.1 delivers: buffer headers, tracing records and
 * callback payloads. In our own declarations; see abi.h.
 *
 * Records start with their size in the SDK of the process. Newer SDKs append fields and
 * older ones lack some: read a field only if ROCATTACH_SDK_HAS is true for it. */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_RECORDS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_RECORDS_H_

#include "userspace/collector/sdk/abi_base.h"

/* True if the record at `pointer`, which starts with its size, includes `field`. */
#define ROCATTACH_SDK_HAS(type, pointer, field) \
  ((pointer)->size >=                           \
   offsetof(struct type, field) + sizeof(((const struct type*)0)->field))

/* An agent of the KFD topology; known before HSA is initialised. Strings and arrays
 * live until the tool's finalize. The SDK refuses (INCOMPATIBLE_ABI) a caller whose
 * struct is larger than its own: pass ROCATTACH_SDK_AGENT_BASE_BYTES, and test for
 * `uuid`. */
struct rocattach_sdk_agent {
  uint64_t size;
  rocattach_sdk_agent_id id;
  int32_t type; /* enum rocattach_sdk_agent_type */
  uint32_t cpu_cores_count;
  uint32_t simd_count;
  uint32_t mem_banks_count, caches_count, io_links_count;
  uint32_t cpu_core_id_base, simd_id_base;
  uint32_t max_waves_per_simd;
  uint32_t lds_size_in_kb, gds_size_in_kb;
  uint32_t num_gws;
  uint32_t wave_front_size;
  uint32_t num_xcc;
  uint32_t cu_count;
  uint32_t array_count;
  uint32_t num_shader_banks; /* shader engines */
  uint32_t simd_arrays_per_engine, cu_per_simd_array, simd_per_cu;
  uint32_t max_slots_scratch_cu;
  uint32_t gfx_target_version; /* 10000 * major + 100 * minor + stepping */
  uint16_t vendor_id, device_id;
  uint32_t location_id; /* bus << 8 | device << 3 | function */
  uint32_t domain;
  uint32_t drm_render_minor;
  uint32_t num_sdma_engines, num_sdma_xgmi_engines, num_sdma_queues_per_engine;
  uint32_t num_cp_queues;
  uint32_t max_engine_clk_ccompute, max_engine_clk_fcompute; /* MHz */
  uint32_t sdma_fw_version, fw_version, capability;
  uint32_t cu_per_engine, max_waves_per_cu;
  uint32_t family_id;
  uint32_t workgroup_max_size, grid_max_size;
  uint64_t local_mem_size;
  uint64_t hive_id;
  uint64_t gpu_id; /* KFD's */
  struct rocattach_sdk_dim3 workgroup_max_dim, grid_max_dim;
  const void* mem_banks; /* layouts not declared here */
  const void* caches;
  const void* io_links;
  const char* name; /* "gfx90a" */
  const char* vendor_name;
  const char* product_name;
  const char* model_name;
  uint32_t node_id;        /* of the KFD topology; HSA_AMD_AGENT_INFO_DRIVER_NODE_ID */
  int32_t logical_node_id; /* from 0 over all agents */
  int32_t logical_node_type_id; /* from 0 over the agents of this type */
  uint32_t runtime_visibility;  /* bit 0: HSA sees it (an estimate), 1: HIP */
  uint8_t uuid[16]; /* GPU; SDK 1.0 and later. More follows in newer ones. */
};
#define ROCATTACH_SDK_AGENT_BASE_BYTES 296u
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, type, 16);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, wave_front_size, 64);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, gfx_target_version, 100);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, local_mem_size, 176);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, mem_banks, 224);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, name, 248);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, node_id, 280);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, runtime_visibility, 292);
ROCATTACH_SDK_OFFSET(rocattach_sdk_agent, uuid, ROCATTACH_SDK_AGENT_BASE_BYTES);

/* agents: pointers to struct rocattach_sdk_agent, if version is VERSION_0. */
typedef rocattach_sdk_status (*rocattach_sdk_agents_cb)(int32_t version,
                                                        const void** agents,
                                                        size_t agent_count,
                                                        void* user_data);

/* A buffer callback receives pointers to these. */
struct rocattach_sdk_record_header {
  uint32_t category; /* enum rocattach_sdk_buffer_category */
  uint32_t kind;     /* its meaning depends on the category */
  void* payload;     /* valid during the callback only */
};
ROCATTACH_SDK_SIZE(rocattach_sdk_record_header, 16);

/* On a callback thread of the SDK. drop_count is the total since the buffer was
 * created. */
typedef void (*rocattach_sdk_buffer_cb)(rocattach_sdk_context_id context,
                                        rocattach_sdk_buffer_id buffer,
                                        struct rocattach_sdk_record_header** headers,
                                        size_t header_count, void* data,
                                        uint64_t drop_count);

/* A dispatch. `size` excludes the padding, which is reserved for later fields. */
struct rocattach_sdk_dispatch_info {
  uint64_t size;
  rocattach_sdk_agent_id agent_id;
  rocattach_sdk_queue_id queue_id;
  rocattach_sdk_kernel_id kernel_id;
  rocattach_sdk_dispatch_id dispatch_id; /* from 1, per process */
  uint32_t private_segment_size;
  uint32_t group_segment_size;
  struct rocattach_sdk_dim3 workgroup_size; /* work-items */
  struct rocattach_sdk_dim3 grid_size;      /* work-items */
  uint8_t reserved_padding[56];
};
ROCATTACH_SDK_SIZE(rocattach_sdk_dispatch_info, 128);
ROCATTACH_SDK_OFFSET(rocattach_sdk_dispatch_info, dispatch_id, 32);
ROCATTACH_SDK_OFFSET(rocattach_sdk_dispatch_info, grid_size, 60);

/* BUFFER_HSA_*, BUFFER_HIP_* and BUFFER_MARKER_*: one API call. */
struct rocattach_sdk_api_record {
  uint64_t size;
  int32_t kind; /* enum rocattach_sdk_buffer_kind */
  rocattach_sdk_operation operation;
  struct rocattach_sdk_correlation_id correlation_id;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  rocattach_sdk_thread_id thread_id;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_api_record, 64);

/* BUFFER_KERNEL_DISPATCH; always the operation COMPLETE. */
struct rocattach_sdk_kernel_dispatch_record {
  uint64_t size;
  int32_t kind;
  rocattach_sdk_operation operation;
  struct rocattach_sdk_async_correlation_id correlation_id;
  rocattach_sdk_thread_id thread_id; /* which enqueued it */
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  struct rocattach_sdk_dispatch_info dispatch_info;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_kernel_dispatch_record, 184);
ROCATTACH_SDK_OFFSET(rocattach_sdk_kernel_dispatch_record, dispatch_info, 56);

/* BUFFER_MEMORY_COPY. SDKs before 1.0 end after `bytes`. */
struct rocattach_sdk_memory_copy_record {
  uint64_t size;
  int32_t kind;
  rocattach_sdk_operation operation; /* enum rocattach_sdk_copy_operation */
  struct rocattach_sdk_async_correlation_id correlation_id;
  rocattach_sdk_thread_id thread_id;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  rocattach_sdk_agent_id dst_agent_id, src_agent_id;
  uint64_t bytes;
  union rocattach_sdk_address dst_address, src_address;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_memory_copy_record, 96);
ROCATTACH_SDK_OFFSET(rocattach_sdk_memory_copy_record, bytes, 72);

/* BUFFER_MEMORY_ALLOCATION */
struct rocattach_sdk_memory_allocation_record {
  uint64_t size;
  int32_t kind;
  rocattach_sdk_operation operation; /* 1 allocate, 2 vmem, 3 free, 4 vmem free */
  struct rocattach_sdk_correlation_id correlation_id;
  rocattach_sdk_thread_id thread_id;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  rocattach_sdk_agent_id agent_id;
  union rocattach_sdk_address address;
  uint64_t allocation_size;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_memory_allocation_record, 88);

/* BUFFER_SCRATCH_MEMORY. SDKs before 1.0 end after `flags`. */
struct rocattach_sdk_scratch_memory_record {
  uint64_t size;
  int32_t kind;
  rocattach_sdk_operation operation; /* 1 allocate, 2 free, 3 asynchronous reclaim */
  struct rocattach_sdk_correlation_id correlation_id;
  rocattach_sdk_agent_id agent_id;
  rocattach_sdk_queue_id queue_id;
  rocattach_sdk_thread_id thread_id;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  int32_t flags; /* 1 use once, 2 alternate scratch */
  uint64_t allocation_size;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_scratch_memory_record, 96);
ROCATTACH_SDK_OFFSET(rocattach_sdk_scratch_memory_record, allocation_size, 88);

/* BUFFER_RUNTIME_INITIALIZATION */
struct rocattach_sdk_runtime_initialization_record {
  uint64_t size;
  int32_t kind;
  rocattach_sdk_operation operation; /* enum rocattach_sdk_runtime_operation */
  struct rocattach_sdk_correlation_id correlation_id; /* zeros */
  rocattach_sdk_thread_id thread_id;
  rocattach_sdk_timestamp timestamp;
  uint64_t version;
  uint64_t instance;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_runtime_initialization_record, 72);

/* Passed by value to callback tracing functions. */
struct rocattach_sdk_callback_record {
  rocattach_sdk_context_id context_id;
  rocattach_sdk_thread_id thread_id;
  struct rocattach_sdk_correlation_id correlation_id;
  int32_t kind; /* enum rocattach_sdk_callback_kind */
  rocattach_sdk_operation operation;
  int32_t phase; /* enum rocattach_sdk_callback_phase */
  void* payload;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_callback_record, 64);
ROCATTACH_SDK_OFFSET(rocattach_sdk_callback_record, payload, 56);

/* On the application's thread. user_data is kept from ENTER to EXIT. */
typedef void (*rocattach_sdk_callback_tracing_cb)(
    struct rocattach_sdk_callback_record record,
    union rocattach_sdk_user_data* user_data, void* callback_data);

enum rocattach_sdk_code_object_storage {
  ROCATTACH_SDK_STORAGE_NONE = 0,
  ROCATTACH_SDK_STORAGE_FILE = 1,
  ROCATTACH_SDK_STORAGE_MEMORY = 2,
};

/* CALLBACK_CODE_OBJECT, operation CODE_OBJECT_LOAD. */
struct rocattach_sdk_code_object {
  uint64_t size;
  uint64_t code_object_id; /* from 1 */
  rocattach_sdk_agent_id agent_id;
  uint64_t hsa_agent;
  const char* uri;
  uint64_t load_base, load_size;
  int64_t load_delta;
  int32_t storage_type; /* enum rocattach_sdk_code_object_storage */
  uint64_t memory_base; /* STORAGE_MEMORY; STORAGE_FILE: an int file descriptor */
  uint64_t memory_size; /* STORAGE_MEMORY */
};
ROCATTACH_SDK_SIZE(rocattach_sdk_code_object, 88);
ROCATTACH_SDK_OFFSET(rocattach_sdk_code_object, uri, 32);
ROCATTACH_SDK_OFFSET(rocattach_sdk_code_object, memory_base, 72);

/* CALLBACK_CODE_OBJECT, operation CODE_OBJECT_KERNEL_SYMBOL. */
struct rocattach_sdk_kernel_symbol {
  uint64_t size;
  rocattach_sdk_kernel_id kernel_id; /* from 1 */
  uint64_t code_object_id;
  const char* kernel_name; /* ends in ".kd" */
  uint64_t kernel_object;
  uint32_t kernarg_segment_size, kernarg_segment_alignment;
  uint32_t group_segment_size, private_segment_size;
  uint32_t sgpr_count, arch_vgpr_count, accum_vgpr_count;
  int64_t kernel_code_entry_byte_offset;      /* SDK 1.0 and later */
  union rocattach_sdk_address kernel_address; /* SDK 1.0 and later */
};
ROCATTACH_SDK_SIZE(rocattach_sdk_kernel_symbol, 88);
ROCATTACH_SDK_OFFSET(rocattach_sdk_kernel_symbol, accum_vgpr_count, 64);
ROCATTACH_SDK_OFFSET(rocattach_sdk_kernel_symbol, kernel_address, 80);

/* CALLBACK_KERNEL_DISPATCH; times in the operation COMPLETE only. */
struct rocattach_sdk_callback_kernel_dispatch {
  uint64_t size;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  struct rocattach_sdk_dispatch_info dispatch_info;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_callback_kernel_dispatch, 152);

/* CALLBACK_MARKER_CORE_API: the arguments' union starts with the message, where the
 * operation has one. The union's size varies, so that the return value, which follows
 * it, cannot be declared. */
struct rocattach_sdk_callback_marker {
  uint64_t size;
  const char* message;
};
ROCATTACH_SDK_OFFSET(rocattach_sdk_callback_marker, message, 8);

/* CALLBACK_RUNTIME_INITIALIZATION */
struct rocattach_sdk_callback_runtime_initialization {
  uint64_t size;
  uint64_t version;
  uint64_t instance;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_callback_runtime_initialization, 24);

/* CALLBACK_HIP_STREAM, on the thread that calls HIP. Streams are numbered from 1 as
 * they are created, or first used; 0 is the default stream. */
struct rocattach_sdk_callback_hip_stream {
  uint64_t size;
  uint64_t stream_id;
  union rocattach_sdk_address stream; /* hipStream_t */
};
ROCATTACH_SDK_SIZE(rocattach_sdk_callback_hip_stream, 24);

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_RECORDS_H_ */
