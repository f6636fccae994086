/* Hardware counters of librocprofiler-sdk.so.1: descriptions, records, callbacks. In
 * our own declarations; see abi.h.
 */
#ifndef ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_COUNTERS_H_
#define ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_COUNTERS_H_

#include "userspace/collector/sdk/abi_records.h"

/* rocprofiler_query_counter_info, version 0. The two flags are bits of one byte. */
struct rocattach_sdk_counter_info_v0 {
  rocattach_sdk_counter_id id;
  const char* name;
  const char* description;
  const char* block;      /* "SQ"; empty or NULL for derived counters */
  const char* expression; /* derived counters only */
  uint8_t flags;          /* bit 0: constant of the hardware, bit 1: derived */
};
ROCATTACH_SDK_SIZE(rocattach_sdk_counter_info_v0, 48);
#define ROCATTACH_SDK_COUNTER_CONSTANT 1u
#define ROCATTACH_SDK_COUNTER_DERIVED 2u

/* A dimension of a counter, e.g. shader engines. */
struct rocattach_sdk_dimension_info {
  const char* name;     /* "DIMENSION_SHADER_ENGINE" */
  size_t instance_size; /* positions */
  rocattach_sdk_dimension_id id;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_dimension_info, 24);

/* A position in one dimension. */
struct rocattach_sdk_dimension_position {
  uint64_t size;
  const char* dimension_name;
  size_t index;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_dimension_position, 24);

/* One instance of a counter. */
struct rocattach_sdk_instance_info {
  uint64_t size;
  rocattach_sdk_instance_id instance_id;
  uint64_t counter_id;
  uint64_t dimensions_count;
  const struct rocattach_sdk_dimension_position** dimensions;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_instance_info, 40);

/* rocprofiler_query_counter_info, version 1. The SDK writes its own size of it whatever
 * the caller's is, 88 bytes in SDK 1.0 and 96 from 1.3.2 on, so the caller must leave
 * room for more: use union rocattach_sdk_counter_info_room. */
struct rocattach_sdk_counter_info_v1 {
  uint64_t size;
  rocattach_sdk_counter_id id;
  const char* name;
  const char* description;
  const char* block;
  const char* expression;
  uint8_t flags; /* ROCATTACH_SDK_COUNTER_* */
  uint64_t dimensions_count;
  const struct rocattach_sdk_dimension_info** dimensions;
  uint64_t dimensions_instances_count;
  const struct rocattach_sdk_instance_info** dimensions_instances;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_counter_info_v1, 88);
ROCATTACH_SDK_OFFSET(rocattach_sdk_counter_info_v1, dimensions_count, 56);

union rocattach_sdk_counter_info_room {
  struct rocattach_sdk_counter_info_v1 info;
  uint8_t room[256];
};

/* The list belongs to the SDK. */
typedef rocattach_sdk_status (*rocattach_sdk_counters_cb)(
    rocattach_sdk_agent_id agent, rocattach_sdk_counter_id* counters, size_t count,
    void* user_data);

/* A value: CATEGORY_COUNTERS, COUNTER_RECORD_VALUE. No size field in this one. */
struct rocattach_sdk_counter_record {
  rocattach_sdk_instance_id id;
  double counter_value;
  rocattach_sdk_dispatch_id dispatch_id; /* 0: device counting */
  union rocattach_sdk_user_data user_data;
  rocattach_sdk_agent_id agent_id;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_counter_record, 40);

/* A dispatch that is or was counted; passed by value. Times are 0 at enqueue. */
struct rocattach_sdk_dispatch_data {
  uint64_t size;
  struct rocattach_sdk_async_correlation_id correlation_id;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  struct rocattach_sdk_dispatch_info dispatch_info;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_dispatch_data, 168);
ROCATTACH_SDK_OFFSET(rocattach_sdk_dispatch_data, dispatch_info, 40);

/* CATEGORY_COUNTERS, COUNTER_RECORD_DISPATCH_HEADER: precedes its num_records values.
 */
struct rocattach_sdk_dispatch_count_record {
  uint64_t size;
  uint64_t num_records;
  struct rocattach_sdk_async_correlation_id correlation_id;
  rocattach_sdk_timestamp start_timestamp, end_timestamp;
  struct rocattach_sdk_dispatch_info dispatch_info;
};
ROCATTACH_SDK_SIZE(rocattach_sdk_dispatch_count_record, 176);
ROCATTACH_SDK_OFFSET(rocattach_sdk_dispatch_count_record, dispatch_info, 48);

/* At enqueue, on the application's thread. Leaving *config as it is, {0}, means that
 * this dispatch is not counted. user_data is returned with the values. */
typedef void (*rocattach_sdk_dispatch_cb)(struct rocattach_sdk_dispatch_data data,
                                          rocattach_sdk_counter_config_id* config,
                                          union rocattach_sdk_user_data* user_data,
                                          void* callback_data);
/* After completion (callback form of the service). */
typedef void (*rocattach_sdk_dispatch_record_cb)(
    struct rocattach_sdk_dispatch_data data,
    struct rocattach_sdk_counter_record* records, size_t count,
    union rocattach_sdk_user_data user_data, void* callback_data);

/* Device counting: called when the context starts; calls set_config(context, config).
 */
typedef rocattach_sdk_status (*rocattach_sdk_set_config_fn)(
    rocattach_sdk_context_id context, rocattach_sdk_counter_config_id config);
typedef void (*rocattach_sdk_device_counting_cb)(rocattach_sdk_context_id context,
                                                 rocattach_sdk_agent_id agent,
                                                 rocattach_sdk_set_config_fn set_config,
                                                 void* user_data);

#endif /* ROCATTACH_USERSPACE_COLLECTOR_SDK_ABI_COUNTERS_H_ */
